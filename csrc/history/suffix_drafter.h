// Drafts by copying: follows one token sequence through all its edits and guesses how it goes on, from everything the
// sequence has ever held and from other texts.
//
// Sources, each with a calibration of its own: the text of the session (every token followed so far and the documents
// added to it), its older half, and any number of corpora. The source whose guess promises the most tokens makes the
// draft.
//
// What an edit of the sequence does:
//   more tokens                     appended, cheap
//   up to 64 tokens taken back      undone exactly
//   anything else                   what was indexed stays as a finished document; the sequence goes on as a new one
//                                   that repeats its last 64 tokens, so that matches at the seam are found
// So the text of earlier answers is still there to copy from, and memory is what bounds it: when half of
// `memory_tokens` have been indexed, that half is kept as it is and a new one is begun beside it; the one before is
// dropped. Nothing is ever deleted inside an automaton.
//
// A draft depends only on the calls before it: equal calls give equal drafts.
//
// One thread at a time. Errors: Error(PYSPEC_OPTION) for arguments, before anything has changed; std::bad_alloc leaves
// the object usable and following some beginning of the sequence (n_tokens() says which).
#pragma once

#include "history/copy_source.h"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace pyspec {

struct SuffixDrafterParams {
    int32_t max_draft     = 31;      // tokens, 1..1024
    int64_t memory_tokens = 262144;  // tokens of the session's text in the index, 1024..2^28
    std::vector<int32_t> end_tokens; // a draft ends with any of these
};

class SuffixDrafter {
public:
    static constexpr uint32_t seam_tokens      = SuffixAutomaton::undo_depth;
    static constexpr int64_t max_corpus_tokens = int64_t{1} << 24;
    // Drafts that go on with less than this chance of being right all along are not worth learning from.
    static constexpr double least_product = 0.02;

    explicit SuffixDrafter(SuffixDrafterParams params);

    // The sequence's first `start` tokens are as before, these follow, nothing else. start <= n_tokens().
    void follow(int64_t start, const int32_t * tokens, int64_t n);
    void append(const int32_t * tokens, int64_t n) { follow(n_tokens(), tokens, n); }
    // Cut to the first n tokens; longer than the sequence: no change.
    void truncate(int64_t n);
    // Take back exactly the newest n tokens; OPTION when they are more than undoable().
    void undo(int64_t n);
    int64_t undoable() const noexcept { return recent_.undoable(); }
    // Tokens [begin, end) left the sequence, later ones moved up.
    void remove(int64_t begin, int64_t end);
    // Text to copy from that is not part of the sequence, such as the expected answer. Counts like the session's own.
    void add_document(const int32_t * tokens, int64_t n);
    // A static body of text: document i is tokens[ends[i-1] .. ends[i]).
    void add_corpus(const int32_t * tokens, const int64_t * ends, int64_t n_documents);
    // Forget the sequence, all text of the session and all calibration. Corpora stay.
    void reset();

    // Guess what follows, at most `limit` tokens, cut before the product of confidences falls below min_product. Valid
    // until the next call.
    const std::vector<Guess> & draft(int32_t limit, double min_product);

    int64_t n_tokens() const noexcept { return static_cast<int64_t>(tokens_.size()); }
    const int32_t * tokens() const noexcept { return tokens_.data(); }
    int32_t max_draft() const noexcept { return params_.max_draft; }
    int64_t n_corpora() const noexcept { return static_cast<int64_t>(corpora_.size()); }
    // Of the index of the session's text, both halves.
    int64_t n_indexed() const noexcept;
    int64_t n_states() const noexcept;
    int64_t n_transitions() const noexcept;
    uint64_t memory_bytes() const noexcept; // everything

private:
    // A text that does not change, and the longest match of the sequence's end in it.
    struct Static {
        SuffixAutomaton text;
        CopySource source;
        Match match{};
        std::array<Match, SuffixAutomaton::undo_depth> before{}; // ring: matches before the last n_before tokens
        uint32_t next_before = 0;
        uint32_t n_before    = 0;

        void advance(int32_t token) noexcept;
        void undo(uint32_t n, const std::vector<int32_t> & tokens) noexcept; // tokens: the sequence afterwards
        void restart(const std::vector<int32_t> & tokens) noexcept;
    };

    template <typename F> void for_static(F && f);
    void append_one(int32_t token);
    void index(int32_t token);
    void start_document();
    void turn_over(bool repeat_end);
    void edited() noexcept; // guesses about the old text are void

    SuffixDrafterParams params_;
    std::vector<int32_t> tokens_; // the sequence
    SuffixAutomaton recent_;
    CopySource recent_source_;
    std::unique_ptr<Static> older_;
    std::vector<std::unique_ptr<Static>> corpora_;
    std::vector<Guess> draft_;
};

} // namespace pyspec
