// Acceptance of a draft by sample-and-match: the sampler chooses the target's own token for each row, and the draft is
// right as far as it says the same. What is emitted is always the sampler's choice, so a draft can change how many
// tokens one pass yields and never which.
#pragma once

#include "sampling/sampler.h"

#include <cstdint>
#include <functional>

namespace pyspec {

struct Verdict {
    int32_t n_out;      // tokens emitted, >= 1; the sampler has advanced by as many
    int32_t n_accepted; // leading tokens of those that equal the draft
};

// rows: {n_vocab, n_draft + 1} contiguous logits; maxima: of their blocks, row by row, or null (scan.h). Row 0 belongs
// to the token before the draft, row i to draft[i - 1]. Goes on row by row while the choice equals the draft token;
// stops after a token for which is_end says true (an empty function never stops), after n_max tokens, and after the row
// behind the last draft token. Penalties see every token emitted before within this call. out has room for min(n_draft
// + 1, n_max) ids. Errors: OPTION for n_draft < 0, n_max < 1, or a row from which nothing can be chosen; rows after the
// stop are not looked at. On any error (also one thrown by is_end) the sampler is as before and out is untouched.
Verdict accept_match(Sampler & sampler, const float * rows, const float * maxima, const int32_t * draft,
                     int32_t n_draft, int32_t n_max, const std::function<bool(int32_t token)> & is_end, int32_t * out);

} // namespace pyspec
