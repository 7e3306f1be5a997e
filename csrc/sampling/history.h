// What a sampler has seen: tokens, which of them belong to the prompt, and a fingerprint of every prefix, by which two
// histories find the point where they part without comparing all of it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pyspec {

class SamplerHistory {
public:
    struct Entry {
        int32_t token;
        bool prompt;
        uint64_t prefix; // fingerprint of all entries up to this one and of the states they left
    };

    size_t size() const noexcept { return entries_.size(); }
    const Entry & operator[](size_t i) const noexcept { return entries_[i]; }
    const Entry & back() const noexcept { return entries_.back(); }

    // state: whatever else the sampler's future depends on after this entry.
    void push(int32_t token, bool prompt, double state) {
        const uint64_t before = entries_.empty() ? 0 : entries_.back().prefix;
        entries_.push_back({token, prompt, mix(before, token, prompt, state)});
    }
    void pop() noexcept { entries_.pop_back(); }
    void clear() noexcept { entries_.clear(); }

    // Room for n more, at least doubled, or many small reserves would be quadratic.
    void reserve_more(size_t n) {
        if (entries_.capacity() - entries_.size() >= n) return;
        entries_.reserve(entries_.size() + (n > entries_.size() ? n : entries_.size()));
    }

    // Length of the longest common prefix. Takes as long as the longer tail behind it, not as the histories. Different
    // prefixes are taken for equal with probability 2^-64.
    size_t common_prefix(const SamplerHistory & other) const noexcept {
        size_t n = size() < other.size() ? size() : other.size();
        while (n > 0 && entries_[n - 1].prefix != other.entries_[n - 1].prefix) --n;
        return n;
    }

private:
    static uint64_t mix(uint64_t before, int32_t token, bool prompt, double state) noexcept {
        // The finaliser of MurmurHash3 over a combination with odd multipliers.
        uint64_t x = before * 0x9E3779B97F4A7C15u + (static_cast<uint64_t>(static_cast<uint32_t>(token)) << 1 | prompt);
        x ^= std::bit_cast<uint64_t>(state) * 0xC2B2AE3D27D4EB4Fu;
        x = (x ^ x >> 33) * 0xFF51AFD7ED558CCDu;
        x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53u;
        return (x ^ x >> 33) + 0x165667B19E3779F9u; // a history of zeros has no fixed point
    }

    std::vector<Entry> entries_;
};

} // namespace pyspec
