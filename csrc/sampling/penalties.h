// How often each token occurs in the last part of the history, kept up to date so that sampling does not depend on the
// length of the history, and undone exactly by running backwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pyspec {

class PenaltyCounts {
public:
    struct Entry {
        int32_t token;
        int32_t count; // > 0
    };

    // Entries in ascending token order.
    const std::vector<Entry> & entries() const noexcept { return entries_; }

    // Room for `n` more distinct tokens, so that the next n add() calls cannot fail.
    void reserve_more(size_t n) {
        if (entries_.capacity() - entries_.size() < n) entries_.reserve(2 * entries_.size() + n);
    }
    void add(int32_t token);    // may allocate
    void remove(int32_t token); // token must be present
    void clear() noexcept { entries_.clear(); }

private:
    std::vector<Entry> entries_; // sorted and flat: windows are small, copies are cheap
};

// The logit of a token that occurs `count` > 0 times. The repeat penalty moves it away from "likely" on either side of
// zero; then count * frequency + presence is taken off.
float penalised(float logit, int32_t count, float repeat, float frequency, float presence) noexcept;

} // namespace pyspec
