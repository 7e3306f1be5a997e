// One body of text to copy from: walks its automaton from the longest match of the current text and learns how far its
// guesses can be trusted.
//
// The walk follows, at each step, the majority of all occurrences of the context. When the context has only one
// occurrence left, the current end of the text itself (the text repeats itself and the walk has caught up), it starts
// again at the longest match: that is what copying from the draft itself would give.
//
// Every guess is scored against the text that follows, whether the target verified it or not: up to the first wrong
// token, and never behind it. Up to max_open guesses wait for their text at a time.
//
// One thread at a time for changes.
#pragma once

#include "history/draft_confidence.h"
#include "history/suffix_automaton.h"

#include <cstdint>
#include <vector>

namespace pyspec {

// The longest string that ends the current text and is known to an automaton.
struct Match {
    uint32_t state  = SuffixAutomaton::root;
    uint32_t length = 0;
};

struct Guess {
    int32_t token;
    float estimate;   // probability before correction
    float confidence; // after it
};

struct WalkLimits {
    uint32_t max_tokens;                   // of a guess
    double min_product;                    // the walk ends before the product of confidences falls below this
    const std::vector<int32_t> & last_ids; // the walk ends with any of these
};

class CopySource {
public:
    static constexpr uint32_t max_open = 32;

    // Guesses what follows a text of n_tokens tokens that ends with `end`. The result stays valid until the next call.
    const std::vector<Guess> & guess(const SuffixAutomaton & text, Match end, uint64_t n_tokens,
                                     const WalkLimits & limits);
    // Tokens of context that agreed at the start of the last guess; 0: no match.
    uint32_t match_length() const noexcept { return match_length_; }

    // The text went on with this token.
    void observe(int32_t token) noexcept;
    // The text was changed: guesses that wait for theirs are forgotten.
    void forget_open() noexcept { n_open_ = 0; }
    void reset() noexcept;

    size_t memory_bytes() const noexcept;

private:
    struct Open {
        uint64_t start = 0; // length of the text when it was made
        size_t seen    = 0; // tokens of it that the text has confirmed
        std::vector<Guess> guess;
    };

    void walk(const SuffixAutomaton & text, Match anchor, const WalkLimits & limits);
    void keep_open(uint64_t start);

    Calibration calibration_;
    std::vector<Guess> guess_;
    std::vector<Open> open_; // the first n_open_ of them, oldest first; the others keep their memory
    uint32_t n_open_       = 0;
    uint32_t match_length_ = 0;
};

} // namespace pyspec
