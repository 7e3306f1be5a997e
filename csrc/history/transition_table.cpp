#include "history/transition_table.h"

#include <algorithm>

namespace pyspec {
namespace {

// At most 7 slots of 10 are used: linear probing then looks at two slots on average.
size_t slots_needed(size_t n) {
    return n + n * 3 / 7 + 1;
}

// 64 bits mixed so that the high half, which chooses the slot, depends on all of the key.
uint32_t mixed(uint32_t state, int32_t token) noexcept {
    uint64_t h = (static_cast<uint64_t>(state) << 32 | static_cast<uint32_t>(token)) * 0x9E3779B97F4A7C15u;
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93u;
    return static_cast<uint32_t>(h >> 32);
}

} // namespace

size_t TransitionTable::home(uint32_t state, int32_t token) const noexcept {
    // Any capacity will do, not only powers of two: growing by half wastes less memory than doubling.
    return static_cast<size_t>(static_cast<uint64_t>(mixed(state, token)) * slots_.size() >> 32);
}

void TransitionTable::reserve_more(size_t n) {
    const size_t needed = slots_needed(size_ + n);
    if (needed <= slots_.size()) return;
    std::vector<Entry> old(std::max({needed, slots_.size() + slots_.size() / 2, size_t{64}}));
    old.swap(slots_);
    size_ = 0;
    for (const Entry & entry : old) {
        if (entry.state != no_state) insert(entry);
    }
}

size_t TransitionTable::locate(uint32_t state, int32_t token) const noexcept {
    if (slots_.empty()) return 0;
    for (size_t slot = home(state, token);; slot = after(slot)) {
        const Entry & entry = slots_[slot];
        if (entry.state == state && entry.token == token) return slot;
        if (entry.state == no_state) return slots_.size();
    }
}

const TransitionTable::Entry * TransitionTable::find(uint32_t state, int32_t token) const noexcept {
    const size_t slot = locate(state, token);
    return slot == slots_.size() ? nullptr : &slots_[slot];
}

TransitionTable::Entry * TransitionTable::find(uint32_t state, int32_t token) noexcept {
    const size_t slot = locate(state, token);
    return slot == slots_.size() ? nullptr : &slots_[slot];
}

void TransitionTable::insert(const Entry & entry) noexcept {
    size_t slot = home(entry.state, entry.token);
    while (slots_[slot].state != no_state) slot = after(slot);
    slots_[slot] = entry;
    ++size_;
}

void TransitionTable::erase(uint32_t state, int32_t token) noexcept {
    size_t hole = locate(state, token);
    // Entries behind the hole that would no longer be found move into it.
    for (size_t slot = after(hole); slots_[slot].state != no_state; slot = after(slot)) {
        const size_t wanted = home(slots_[slot].state, slots_[slot].token);
        const bool stays    = hole <= slot ? hole < wanted && wanted <= slot : hole < wanted || wanted <= slot;
        if (stays) continue;
        slots_[hole] = slots_[slot];
        hole         = slot;
    }
    slots_[hole] = Entry{};
    --size_;
}

void TransitionTable::clear() noexcept {
    slots_.clear();
    size_ = 0;
}

} // namespace pyspec
