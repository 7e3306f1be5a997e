// Transitions (state, token) -> state of those automaton states that have two or more: one open-addressing hash table
// with linear probing, shared by all states. The transitions of one state are chained by token, newest first, so that
// they can be enumerated and copied.
//
// The layout is a function of the sequence of insertions: the hash has no seed and no pointer enters it. Erasing all
// that was inserted since some moment restores the bytes of that moment, because later entries never displaced earlier
// ones; unless the table grew in between, then the contents are equal and the capacity is not.
//
// One thread at a time. Growing may throw std::bad_alloc and then leaves the table as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pyspec {

class TransitionTable {
public:
    static constexpr uint32_t no_state = UINT32_MAX;

    struct Entry {
        uint32_t state  = no_state; // no_state: the slot is free
        int32_t token   = 0;
        uint32_t target = 0;
        int32_t older =
            0; // token of the state's next older transition; the owner chooses the value that ends the chain
    };

    // Room for `n` more entries, so that the next n insert() calls cannot fail.
    void reserve_more(size_t n);

    // nullptr when absent. The pointer is valid until the next insert or erase.
    const Entry * find(uint32_t state, int32_t token) const noexcept;
    Entry * find(uint32_t state, int32_t token) noexcept;

    // The key must be absent, and the room reserved.
    void insert(const Entry & entry) noexcept;
    // The key must be present.
    void erase(uint32_t state, int32_t token) noexcept;

    void clear() noexcept;
    size_t size() const noexcept { return size_; }
    size_t memory_bytes() const noexcept { return slots_.capacity() * sizeof(Entry); }
    // All slots, free ones included; for tests.
    const std::vector<Entry> & slots() const noexcept { return slots_; }

private:
    size_t home(uint32_t state, int32_t token) const noexcept;
    size_t after(size_t slot) const noexcept { return slot + 1 == slots_.size() ? 0 : slot + 1; }
    size_t locate(uint32_t state, int32_t token) const noexcept; // the key's slot, or slots_.size()

    std::vector<Entry> slots_;
    size_t size_ = 0;
};

} // namespace pyspec
