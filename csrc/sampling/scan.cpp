#include "sampling/scan.h"

#include "support/error.h"
#include "support/row_blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pyspec {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
constexpr float plus_infinity  = std::numeric_limits<float>::infinity();

// Calls visit(first, end, block maximum) for each block, and refuses rows that no order can be put on. maxima: of the
// blocks, or null: then the row is read.
template <typename Visit> void for_each_block(const float * logits, int32_t n, const float * maxima, Visit visit) {
    for (int32_t first = 0; first < n; first += row_block) {
        const int32_t end = std::min(n, first + row_block);
        const float max   = maxima != nullptr ? maxima[first / row_block] : block_maximum(logits + first, end - first);
        if (!(max < plus_infinity)) {
            for (int32_t i = first; i < end; ++i) {
                if (!(logits[i] < plus_infinity)) {
                    throw Error(PYSPEC_OPTION, format("the logit of token %d is %s; logits must be finite or -infinity",
                                                      i, std::isnan(logits[i]) ? "not a number" : "+infinity"));
                }
            }
        }
        visit(first, end, max);
    }
}

[[noreturn]] void throw_all_forbidden(int32_t n) {
    throw Error(PYSPEC_OPTION, format("no token can be chosen: all %d logits are -infinity (forbidden)", n));
}

} // namespace

int32_t arg_max(const float * logits, int32_t n, const float * maxima) {
    float best         = minus_infinity;
    int32_t best_first = -1;
    int32_t best_end   = -1;
    for_each_block(logits, n, maxima, [&](int32_t first, int32_t end, float max) {
        if (max > best) { // strictly: an equal maximum further on has a higher id
            best       = max;
            best_first = first;
            best_end   = end;
        }
    });
    if (best_first < 0) throw_all_forbidden(n);
    return static_cast<int32_t>(std::find(logits + best_first, logits + best_end, best) - logits);
}

void top_k_of_row(const float * logits, int32_t n, int32_t k, std::vector<ScoredToken> & best, const float * maxima) {
    const auto better = [](const ScoredToken & a, const ScoredToken & b) {
        return ranks_before(a.logit, a.token, b.logit, b.token);
    };
    const size_t wanted = static_cast<size_t>(std::min(k, n));
    // Collect everything above a threshold; when the buffer is full keep the best `wanted` and raise the threshold to
    // the worst of them. Ids only grow, so a later logit equal to the threshold cannot be among the best: hence
    // "greater".
    const size_t buffer_size = 2 * wanted + row_block;
    float threshold          = minus_infinity;
    best.clear();
    best.reserve(buffer_size + row_block);
    const auto shrink = [&] {
        const auto last = best.begin() + static_cast<std::ptrdiff_t>(wanted) - 1;
        std::nth_element(best.begin(), last, best.end(), better);
        threshold = last->logit;
        best.resize(wanted);
    };
    for_each_block(logits, n, maxima, [&](int32_t first, int32_t end, float max) {
        if (!(max > threshold)) return;
        for (int32_t i = first; i < end; ++i) {
            if (logits[i] > threshold) best.push_back({i, logits[i]});
        }
        if (best.size() >= buffer_size) shrink();
    });
    if (best.empty()) throw_all_forbidden(n);
    if (best.size() > wanted) shrink();
    std::sort(best.begin(), best.end(), better);
}

} // namespace pyspec
