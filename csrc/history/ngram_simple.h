// ngram-simple: copy what followed the newest occurrence of the current n tokens.
#pragma once

#include "history/ngram_drafter.h"
#include "history/ngram_index.h"

namespace pyspec {

// With L tokens of history, the newest occurrence that starts at 1 .. L-n-1 decides. The draft is what follows it, at
// most m tokens; fewer than n are not worth a verification, and then no older occurrence is tried. Histories of n+m+1
// tokens or fewer give nothing. (The rule of llama.cpp's drafter of this name, which scans the history each time.)
//
// Cost per committed token and per draft: O(n + draft). Memory: at most 48 bytes per token of the longest history,
// spare room of growing tables included.
class NgramSimple final : public NgramDrafter {
public:
    NgramSimple(size_t n, size_t m) : NgramDrafter(m, n_copy_evidence), m_(m), index_(n) {}

    size_t memory_bytes() const override { return NgramDrafter::memory_bytes() + index_.memory_bytes(); }

protected:
    void grown(size_t from) override;
    void cutting(size_t n, bool withdrawn) override;
    void make_draft(int32_t last, size_t limit, NgramDraft & draft) override;

private:
    // Tokens that a history needs to have before an occurrence that starts there is indexed: it must be followed.
    size_t needed(size_t start) const { return start + index_.n() + 1; }

    size_t m_;
    NgramIndex index_;
};

} // namespace pyspec
