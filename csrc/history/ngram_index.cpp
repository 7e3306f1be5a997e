#include "history/ngram_index.h"

#include "history/token_hash.h"

#include <algorithm>

namespace pyspec {

uint32_t NgramIndex::push(const int32_t * tokens) {
    if (2 * (keys_.size() + 1) > slots_.size()) grow();
    const uint32_t start  = static_cast<uint32_t>(older_.size());
    const int32_t * ngram = tokens + start;
    const uint32_t hash   = static_cast<uint32_t>(token_hash(ngram, n_));
    uint32_t & slot       = slots_[slot_of(tokens, ngram, hash)];
    if (slot == none) {
        slot = static_cast<uint32_t>(keys_.size());
        keys_.push_back({start, hash});
        older_.push_back(none);
        return slot;
    }
    older_.push_back(keys_[slot].newest);
    keys_[slot].newest = start;
    return slot;
}

uint32_t NgramIndex::pop(const int32_t * tokens) {
    const uint32_t start  = static_cast<uint32_t>(older_.size() - 1);
    const int32_t * ngram = tokens + start;
    const size_t at       = slot_of(tokens, ngram, static_cast<uint32_t>(token_hash(ngram, n_)));
    const uint32_t key    = slots_[at];
    if (older_[start] == none) {
        slots_[at] = none;
        keys_.pop_back();
    } else {
        keys_[key].newest = older_[start];
    }
    older_.pop_back();
    return key;
}

uint32_t NgramIndex::find(const int32_t * tokens, const int32_t * ngram) const {
    return slots_[slot_of(tokens, ngram, static_cast<uint32_t>(token_hash(ngram, n_)))];
}

size_t NgramIndex::memory_bytes() const {
    return older_.capacity() * sizeof(uint32_t) + keys_.capacity() * sizeof(Key) + slots_.capacity() * sizeof(uint32_t);
}

// Slot that holds the n-gram, or the empty one where it belongs.
size_t NgramIndex::slot_of(const int32_t * tokens, const int32_t * ngram, uint32_t hash) const {
    const size_t mask = slots_.size() - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        if (slots_[i] == none) return i;
        const Key & key = keys_[slots_[i]];
        if (key.hash == hash && std::equal(ngram, ngram + n_, tokens + key.newest)) return i;
    }
}

void NgramIndex::grow() {
    const size_t size = 2 * slots_.size();
    slots_.assign(size, none);
    for (uint32_t key = 0; key < keys_.size(); ++key) {
        size_t i = keys_[key].hash & (size - 1);
        while (slots_[i] != none) i = (i + 1) & (size - 1);
        slots_[i] = key;
    }
}

} // namespace pyspec
