// Numbers read off a raw row of logits, before any bias, penalty or filter. Nothing here touches a sampler, so asking
// for them cannot change a choice.
#pragma once

#include <cstdint>
#include <vector>

namespace pyspec {

struct TokenLogprob {
    int32_t token;
    float logprob; // natural logarithm; -infinity for a forbidden token
};

// Log-softmax over the whole row, accumulated in double in id order.
// Returns the value of `token` and fills `top` with the n_top best (ties: lowest id; forbidden tokens come last).
// Errors: OPTION for a token outside 0 .. n_vocab-1, n_top outside 0 .. n_vocab, NaN, +infinity, or all forbidden.
// `top` is untouched then.
float logprobs(const float * logits, int32_t n_vocab, int32_t token, int32_t n_top, std::vector<TokenLogprob> & top);

struct DraftChoice {
    int32_t token;
    float probability;
};

// A drafter's greedy choice: the largest logit among the ids 0 .. n_allowed-1 (ties: lowest id), and its share in the
// softmax over the n_best largest of those logits. Ids from n_allowed on (padding of a draft vocabulary that the target
// does not have) count for neither. n_best above n_allowed means all.
// Errors: OPTION for n_allowed outside 1 .. n_vocab, n_best < 1, NaN, +infinity, or all allowed ids forbidden.
// maxima: of the row's blocks, or null (scan.h).
DraftChoice draft_choice(const float * logits, const float * maxima, int32_t n_vocab, int32_t n_allowed,
                         int32_t n_best);

} // namespace pyspec
