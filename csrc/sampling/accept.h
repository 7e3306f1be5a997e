// Acceptance: what the output rows of one verification emit. Sample-and-match is the rule of the house: the sampler
// chooses the target's own token for each row, and the draft is right as far as it says the same, so a draft can change
// how many tokens one pass yields and never which. Rejection sampling is in rejection.h.
//
// All of them go on row by row while the draft is accepted, and stop after a token for which is_end says true (an empty
// function never stops), after n_max tokens, and after the row behind the last draft token. Penalties and all other
// state see every token emitted before within the call. Rows behind the stop are not looked at.
#pragma once

#include "sampling/sampler.h"

#include <cstdint>
#include <functional>

namespace pyspec {

// Everything is borrowed for the call. Row 0 belongs to the token before the draft, row i to draft[i - 1].
struct Verification {
    const float * rows;     // {n_vocab, n_draft + 1} contiguous logits
    const float * maxima;   // of their blocks, row by row, or null (scan.h)
    const uint32_t * masks; // {n_mask_words(n_vocab), n_draft + 1} allowed tokens, or null (scan.h)
    const int32_t * draft;
    int32_t n_draft;
    int32_t n_max; // most tokens to emit, >= 1
    std::function<bool(int32_t token)> is_end;
};

struct Verdict {
    int32_t n_out;      // tokens emitted, >= 1; the sampler has advanced by as many
    int32_t n_accepted; // leading tokens of those that were accepted from the draft (and equal it)
};

// In all functions out has room for min(n_draft + 1, n_max) ids. Errors: OPTION for n_draft < 0, n_max < 1, or a row
// from which nothing can be chosen. On any error (also one thrown by is_end) the sampler is as before and out is
// untouched.

Verdict accept_match(Sampler & sampler, const Verification & v, int32_t * out);

// After a checkpoint was restored: the draft was decided in the first attempt and is not decided again, whatever the
// rows say; then one token more. An end token in the draft ends it.
Verdict accept_replay(Sampler & sampler, const Verification & v, int32_t * out);

// For benchmarks; the text means nothing. Draft token i is accepted with probability rates[i] / rates[i - 1] (the first
// with rates[0]) by a coin keyed by seed and index, whatever the rows say, but never an end token; a rejection emits
// the target's choice. rates: see check_synthetic_rates. Errors: also OPTION for a draft longer than n_rates.
Verdict accept_synthetic(Sampler & sampler, const Verification & v, const double * rates, int32_t n_rates,
                         int32_t * out);

// rates[i]: share of drafts whose first i + 1 tokens are accepted. Errors: OPTION unless all lie in [0, 1] and none is
// larger than the one before.
void check_synthetic_rates(const double * rates, int32_t n);

// p, p^2, ... p^n with 1 + p + ... + p^n = length, the mean number of tokens per round. Errors: OPTION for n < 1 or a
// length outside [1, n + 1].
void synthetic_rates(double length, int32_t n, double * rates);

} // namespace pyspec
