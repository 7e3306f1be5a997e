// Passes over a whole row of logits: the only sampling code whose cost grows with the vocabulary for usual settings.
// Order everywhere: larger logit first, equal logits by lower id (-0 equals +0). -infinity means "forbidden" and is
// never returned; NaN and +infinity are refused with PYSPEC_OPTION naming the token.
//
// maxima: those of the row's blocks (support/row_blocks.h) when somebody has made them, else null. They save reading
// the row, which lies in another processor's cache when it has just been computed; results are the same.
#pragma once

#include <cstdint>
#include <vector>

namespace pyspec {

struct ScoredToken {
    int32_t token;
    float logit;
};

// Larger logit first, then lower id. A strict total order on rows without NaN.
inline bool ranks_before(float logit_a, int32_t token_a, float logit_b, int32_t token_b) noexcept {
    return logit_a != logit_b ? logit_a > logit_b : token_a < token_b;
}

// Id of the largest of n logits. Errors: OPTION when all are -infinity.
int32_t arg_max(const float * logits, int32_t n, const float * maxima = nullptr);

// The k best of n logits in order; fewer when fewer are allowed. One pass, no copy of the row. k >= 1.
// Errors: OPTION when all are -infinity. `best` is overwritten; its capacity is reused.
void top_k_of_row(const float * logits, int32_t n, int32_t k, std::vector<ScoredToken> & best,
                  const float * maxima = nullptr);

} // namespace pyspec
