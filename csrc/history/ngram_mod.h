// ngram-mod: a fixed table from the hash of n tokens to the token that followed them last.
#pragma once

#include "history/ngram_drafter.h"

#include <vector>

namespace pyspec {

// The draft is walked token by token: the last n tokens, drafted ones included, are looked up until nothing is found or
// n_max tokens are there. A walk of fewer than n_min is no draft.
//
// The table remembers all text of the session, also what has left the history (an answer before its regeneration, an
// earlier conversation); a newer continuation replaces an older one. It is emptied, and the present history entered
// again, when begin finds more than a quarter of it in use, and after five rounds in a row in which less than a quarter
// of this drafter's verified draft was accepted.
//
// Where llama.cpp's drafter of this name differs: its table is shared by all sessions; it keeps no check of which
// n-gram an entry belongs to (here 32 bits of the hash), so that a filling table invents continuations; after a reset
// the history stays forgotten; a draft that was cut before verification counts as a bad one.
//
// Cost per committed token: O(n); per draft: O(n * draft). Memory: 8 bytes per entry, from the first token on, and 8
// per token of the longest history.
class NgramMod final : public NgramDrafter {
public:
    NgramMod(size_t n, size_t n_min, size_t n_max, size_t n_entries);
    size_t memory_bytes() const override { return NgramDrafter::memory_bytes() + table_.capacity() * sizeof(Entry); }

    size_t used() const { return used_; }

protected:
    void grown(size_t from) override;
    void cutting(size_t n, bool withdrawn) override;
    void begun() override;
    void make_draft(int32_t last, size_t limit, NgramDraft & draft) override;
    void verified(size_t n_draft, size_t n_accepted) override;

private:
    static constexpr int32_t empty = -1;
    struct Entry {
        int32_t token  = empty;
        uint32_t check = 0;
    };

    Entry & entry(uint64_t hash);
    void enter();
    void reset();

    size_t n_, n_min_;
    std::vector<Entry> table_;
    std::vector<int32_t> window_; // the text that a walk looks up, here to be allocated once
    size_t used_    = 0;          // entries that are not empty
    size_t entered_ = 0;          // n-grams of the present history that were entered: those at starts below
    size_t n_low_   = 0;          // bad rounds in a row
};

} // namespace pyspec
