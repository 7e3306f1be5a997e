// Passes over a whole row of logits: the only sampling code whose cost grows with the vocabulary for usual settings.
// Order everywhere: larger logit first, equal logits by lower id (-0 equals +0). -infinity means "forbidden" and is
// never returned; NaN and +infinity are refused with PYSPEC_OPTION naming the token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pyspec {

// One row to choose from; everything is borrowed.
//
// maxima: those of the row's blocks (support/row_blocks.h) when somebody has made them, else null. They save reading
// the row, which lies in another processor's cache when it has just been computed; results are the same.
// mask: one bit for each token, bit t % 32 of word t / 32, set = allowed; null allows all, bits from n on are not read.
// What it forbids counts as -infinity and is never looked at, so a row costs little when a grammar allows few tokens.
// The maxima are still those of the whole row: upper bounds of what is allowed, which is all they are used for.
struct LogitRow {
    const float * logits; // {n}
    int32_t n;
    const float * maxima  = nullptr; // {(n + 127) / 128}
    const uint32_t * mask = nullptr; // {(n + 31) / 32}
};

constexpr size_t n_mask_words(int32_t n) {
    return (static_cast<size_t>(n) + 31) / 32;
}

struct ScoredToken {
    int32_t token;
    float logit;
};

// Larger logit first, then lower id. A strict total order on rows without NaN.
inline bool ranks_before(float logit_a, int32_t token_a, float logit_b, int32_t token_b) noexcept {
    return logit_a != logit_b ? logit_a > logit_b : token_a < token_b;
}

// Id of the largest logit. Errors: OPTION when every token is forbidden.
int32_t arg_max(const LogitRow & row);

// The k best in order; fewer when fewer are allowed. One pass, no copy of the row. k >= 1.
// Errors: OPTION when every token is forbidden. `best` is overwritten; its capacity is reused.
void top_k_of_row(const LogitRow & row, int32_t k, std::vector<ScoredToken> & best);

// All that are not forbidden, in id order. Errors and `all`: as above.
void allowed_of_row(const LogitRow & row, std::vector<ScoredToken> & all);

} // namespace pyspec
