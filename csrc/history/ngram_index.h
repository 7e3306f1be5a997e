// Where each n-gram of a growing and shrinking token list starts: exact, in constant time per token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pyspec {

// Every start 0, 1, 2, ... of the list is added in this order and taken back in reverse. Distinct n-grams are numbered
// in the order of their first start ("keys"); the starts of one n-gram are chained from the newest to the oldest.
// Hashes only nominate, tokens decide, so that a hit is always a real one.
//
// The list itself is the caller's and is handed to each call; what has been pushed must not change before it is popped.
// Memory: 4 bytes per start, 8 per distinct n-gram, and a table of 8 to 16 bytes per distinct n-gram; it does not
// shrink. At most 2^30 starts. One thread at a time.
class NgramIndex {
public:
    static constexpr uint32_t none = ~0u;

    // n >= 1: length of the n-grams.
    explicit NgramIndex(size_t n) : n_(n), slots_(64, none) {}

    size_t n() const { return n_; }
    size_t n_starts() const { return older_.size(); }
    size_t n_keys() const { return keys_.size(); }

    // Adds start n_starts(); tokens holds at least n tokens from there. Returns the key; it is new if n_keys() grew.
    uint32_t push(const int32_t * tokens);
    // Takes the newest start back. Returns its key, which is gone if n_keys() shrank.
    uint32_t pop(const int32_t * tokens);

    // Key of these n tokens, or none.
    uint32_t find(const int32_t * tokens, const int32_t * ngram) const;
    uint32_t newest(uint32_t key) const { return keys_[key].newest; }
    uint32_t older(uint32_t start) const { return older_[start]; } // the start before, or none

    size_t memory_bytes() const;

private:
    struct Key {
        uint32_t newest;
        uint32_t hash;
    };

    size_t slot_of(const int32_t * tokens, const int32_t * ngram, uint32_t hash) const;
    void grow();

    size_t n_;
    std::vector<uint32_t> older_; // by start
    std::vector<Key> keys_;
    // Open addressing, at most half full. Keys enter in the order of their numbers, at growth too, and leave in
    // reverse: nothing was placed after the one that leaves, so its slot is simply emptied.
    std::vector<uint32_t> slots_;
};

} // namespace pyspec
