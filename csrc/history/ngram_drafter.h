// What the n-gram drafters have in common: the committed history and the order of calls.
//
//     begin(prompt)                  a generation starts
//     propose(last, limit)           each round; last was sampled after the history and is not part of it
//     commit(kept, emitted, own)     the target kept `kept`, which now ends the history
//     truncate, remove               the history was cut, at its end or in the middle
//
// What follows the history is looked up by its last tokens and `last` ("key"). Drafts end before a negative id (a place
// holder of something that is not text).
#pragma once

#include "history/acceptance_record.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pyspec {

// Drafted tokens with what speaks for each of them.
struct NgramDraft {
    std::vector<int32_t> tokens;
    std::vector<float> prior;      // acceptance_prior of the token
    std::vector<uint8_t> evidence; // class in the drafter's record

    void clear();
    void add(int32_t token, float token_prior, uint8_t token_evidence);
    void cut(size_t n);
};

// Evidence of copied tokens: what other places say that have the same context.
enum CopyEvidence : uint8_t { copy_once = 0, copy_agreed = 1, copy_split = 2, n_copy_evidence = 3 };

// One session's drafter. Owns a copy of the history and its tables. One thread at a time. A history above 2^30 tokens
// is OPTION, and nothing has changed; after OUT_OF_MEMORY the object is good for destruction only.
class NgramDrafter {
public:
    virtual ~NgramDrafter()                        = default;
    NgramDrafter(const NgramDrafter &)             = delete;
    NgramDrafter & operator=(const NgramDrafter &) = delete;

    size_t max_draft() const { return max_draft_; } // longest draft it ever makes
    const std::vector<int32_t> & history() const { return tokens_; }

    // The history is now exactly these tokens. What it has in common with the old one is not indexed again.
    void begin(const int32_t * tokens, size_t n);
    // Draft of at most limit tokens; valid until the next call.
    const NgramDraft & propose(int32_t last, size_t limit);
    // Estimate of the probability that token i of the last draft is right when all before it are.
    float confidence(size_t i) const { return record_.estimate(draft_.evidence[i], i, draft_.prior[i]); }
    // kept: what the history grows by. emitted: the target's tokens after `last` (none: a part of a prompt). own: the
    // verified draft was this drafter's, n_draft tokens of which n_accepted were right; else 0, 0.
    void commit(const int32_t * kept, size_t n_kept, const int32_t * emitted, size_t n_emitted, size_t n_draft,
                size_t n_accepted);
    // Only the first n tokens stay. withdrawn: the rest never was text that anybody read (an undone round).
    void truncate(size_t n, bool withdrawn);
    // Tokens [first, end) left the history; what followed them moves up.
    void remove(size_t first, size_t end);

    virtual size_t memory_bytes() const;

protected:
    NgramDrafter(size_t max_draft, size_t n_evidence) : max_draft_(max_draft), record_(n_evidence) {}

    // tokens_ has grown: tokens from `from` on are new.
    virtual void grown(size_t from) = 0;
    // tokens_ will be cut to n tokens.
    virtual void cutting(size_t n, bool withdrawn) = 0;
    // begin is over.
    virtual void begun() {}
    // Fills an empty draft with at most limit tokens (more are cut), 1 <= limit <= max_draft.
    virtual void make_draft(int32_t last, size_t limit, NgramDraft & draft) = 0;
    // The draft that was made last, cut to n tokens, has been followed by n_emitted tokens, of which the first n_agreed
    // equal it. n = 0: there was none.
    virtual void followed(size_t /*n*/, size_t /*n_emitted*/, size_t /*n_agreed*/) {}
    // A draft of this drafter was verified.
    virtual void verified(size_t /*n_draft*/, size_t /*n_accepted*/) {}

    // The last n - 1 tokens and `last`; null when the history is too short. Valid until the next call.
    const int32_t * key(size_t n, int32_t last);

    std::vector<int32_t> tokens_;

private:
    void append(const int32_t * tokens, size_t n);

    size_t max_draft_;
    AcceptanceRecord record_;
    NgramDraft draft_;
    std::vector<int32_t> key_;
};

// Appends tokens [from, from + n) of the history to the draft. from: the place after the newest occurrence of a context
// of `length` tokens; other: the place after the one before it, or SIZE_MAX when there is none. Where both places say
// the same, two witnesses agree; from the first difference on the newest stands alone.
void copy_tokens(const std::vector<int32_t> & history, size_t from, size_t other, size_t n, size_t length,
                 NgramDraft & draft);

} // namespace pyspec
