// Rejection sampling of drafts (Leviathan, Kalman, Matias, ICML 2023; Chen et al., 2023): opt-in, equal to plain
// sampling in distribution only. A draft token d drawn from q is accepted with probability min(1, p(d) / q(d)); after a
// rejection the token comes from the residual max(0, p - q), renormalised.
//
// p is the law the sampler would draw from: mask, bias, penalties with the tokens accepted before in this call,
// filters, temperature, renormalised over what is left. q is whatever the draft was really drawn from.
//
// Random numbers: coin and residual have streams of their own, keyed by the logical index; the draft has another one.
// A draw shared between draft and verdict would bias the text. Nothing is looked at behind the first rejection, so the
// numbers of later indices are still fresh in the next round.
#pragma once

#include "sampling/accept.h"

#include <cstdint>
#include <vector>

namespace pyspec {

// The law of one draft token. Ids in any order, each once; empty: the drafter has none, and the place is decided by
// sample-and-match (which is rejection sampling of a draft that is certain of its token).
using DraftLaw = std::vector<WeightedToken>;

// min(1, p(d) / q(d)); 0 when q(d) = 0. Exactly 1 when p(d) >= q(d). Both lists in ascending id order.
double acceptance_probability(const std::vector<WeightedToken> & p, const DraftLaw & q, int32_t drafted) noexcept;

// max(0, p - q) over the tokens of p, in their order, renormalised. What is left below 1e-6 is rounding: then p itself.
std::vector<WeightedToken> residual_law(const std::vector<WeightedToken> & p, const DraftLaw & q);

struct RejectionVerdict {
    int32_t n_out;
    int32_t n_accepted;
    int32_t n_coins; // acceptance coins that were looked at: none where p >= q, p = 0 or q = 0
};

// laws[i] is the law draft[i] was drawn from. Row and error rules: accept.h. With temperature <= 0 this is
// accept_match. Errors: also UNSUPPORTED for settings that need every token's own draw, see rejection_refusal; OPTION
// for a law that is none (a probability that is negative or not a number, a sum away from 1 by more than 1e-3, an id
// named twice).
RejectionVerdict accept_rejection(Sampler & sampler, const Verification & v, const std::vector<DraftLaw> & laws,
                                  int32_t * out);

// Why these settings cannot be sampled by rejection, or null.
const char * rejection_refusal(const SamplerParams & params) noexcept;

} // namespace pyspec
