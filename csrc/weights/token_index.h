// Text to token id, for one vocabulary.
#pragma once

#include "weights/vocabulary.h"

#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

namespace pyspec {

// Open addressing over ids: a vocabulary of 262k texts is indexed several times faster than with a node-based map,
// which is a visible part of the time to open a model. The vocabulary must outlive the index and keep its texts.
class TokenIndex {
public:
    explicit TokenIndex(const Vocabulary & vocab)
        : vocab_(vocab), slots_(std::bit_ceil(static_cast<size_t>(vocab.n_tokens) * 2 + 1), -1) {}

    // Id that has this text, -1 for none.
    int32_t find(std::string_view text) const { return slots_[slot_of(text)]; }

    // Adds the token; returns the id that already has the same text (nothing is added then), else -1.
    int32_t add(int32_t id) {
        int32_t & slot = slots_[slot_of(vocab_.token_text(id))];
        if (slot >= 0) return slot;
        slot = id;
        return -1;
    }

private:
    // Slot that holds the text, or the empty one where it belongs. At most half of the slots are ever used.
    size_t slot_of(std::string_view text) const {
        const size_t mask = slots_.size() - 1;
        for (size_t i = std::hash<std::string_view>{}(text)&mask;; i = (i + 1) & mask) {
            if (slots_[i] < 0 || vocab_.token_text(slots_[i]) == text) return i;
        }
    }

    const Vocabulary & vocab_;
    std::vector<int32_t> slots_;
};

} // namespace pyspec
