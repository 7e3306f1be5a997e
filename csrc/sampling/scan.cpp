#include "sampling/scan.h"

#include "support/error.h"
#include "support/row_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace pyspec {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
constexpr float plus_infinity  = std::numeric_limits<float>::infinity();
constexpr int32_t word_bits    = 32;
constexpr uint32_t all_set     = ~uint32_t{0};
static_assert(row_block % word_bits == 0, "a block is a whole number of mask words");

// Below this many allowed tokens in a block, looking at each is cheaper than the maximum of the block.
constexpr int32_t few = 8;

// Bits of the tokens first .. end-1, which lie in one word.
uint32_t word_of(const uint32_t * mask, int32_t first, int32_t end) noexcept {
    const uint32_t word = mask[first / word_bits];
    const int32_t n     = end - first;
    return n < word_bits ? word & ((uint32_t{1} << n) - 1) : word;
}

int32_t count_allowed(const uint32_t * mask, int32_t first, int32_t end) noexcept {
    int32_t n = 0;
    for (int32_t i = first; i < end; i += word_bits) {
        n += std::popcount(word_of(mask, i, std::min(end, i + word_bits)));
    }
    return n;
}

[[noreturn]] void throw_unusable(int32_t token, float logit) {
    throw Error(PYSPEC_OPTION, format("the logit of token %d is %s; logits must be finite or -infinity", token,
                                      std::isnan(logit) ? "not a number" : "+infinity"));
}

[[noreturn]] void throw_all_forbidden(const LogitRow & row) {
    if (row.mask != nullptr) {
        throw Error(PYSPEC_OPTION, format("no token can be chosen: mask and -infinity forbid all %d of them", row.n));
    }
    throw Error(PYSPEC_OPTION, format("no token can be chosen: all %d logits are -infinity (forbidden)", row.n));
}

// Calls visit(token, logit) in id order for every allowed token whose logit is above `floor`, which visit may raise.
// Refuses rows that no order can be put on.
template <typename Visit> void for_each_above(const LogitRow & row, const float & floor, Visit visit) {
    for (int32_t first = 0; first < row.n; first += row_block) {
        const int32_t end     = std::min(row.n, first + row_block);
        const int32_t allowed = row.mask == nullptr ? end - first : count_allowed(row.mask, first, end);
        if (allowed == 0) continue;
        float bound = plus_infinity;
        if (row.maxima != nullptr) {
            bound = row.maxima[first / row_block];
        } else if (allowed >= few) {
            bound = block_maximum(row.logits + first, end - first);
        }
        if (bound <= floor) continue;
        const bool check = !(bound < plus_infinity);
        const auto look  = [&](int32_t i) {
            const float logit = row.logits[i];
            if (check && !(logit < plus_infinity)) throw_unusable(i, logit);
            if (logit > floor) visit(i, logit);
        };
        if (row.mask == nullptr) {
            for (int32_t i = first; i < end; ++i) look(i);
            continue;
        }
        for (int32_t at = first; at < end; at += word_bits) {
            uint32_t bits = word_of(row.mask, at, std::min(end, at + word_bits));
            if (bits == all_set) {
                for (int32_t i = at; i < at + word_bits; ++i) look(i);
            } else {
                for (; bits != 0; bits &= bits - 1) look(at + std::countr_zero(bits));
            }
        }
    }
}

} // namespace

int32_t arg_max(const LogitRow & row) {
    float best    = minus_infinity;
    int32_t token = -1;
    for_each_above(row, best, [&](int32_t i, float logit) { // strictly above: an equal one further on has a higher id
        best  = logit;
        token = i;
    });
    if (token < 0) throw_all_forbidden(row);
    return token;
}

void top_k_of_row(const LogitRow & row, int32_t k, std::vector<ScoredToken> & best) {
    const auto better = [](const ScoredToken & a, const ScoredToken & b) {
        return ranks_before(a.logit, a.token, b.logit, b.token);
    };
    const size_t wanted = static_cast<size_t>(std::min(k, row.n));
    // Collect everything above a threshold; when the buffer is full keep the best `wanted` and raise the threshold to
    // the worst of them. Ids only grow, so a later logit equal to the threshold cannot be among the best: hence
    // "above".
    const size_t buffer_size = 2 * wanted + row_block;
    float threshold          = minus_infinity;
    best.clear();
    best.reserve(buffer_size);
    const auto shrink = [&] {
        const auto last = best.begin() + static_cast<std::ptrdiff_t>(wanted) - 1;
        std::nth_element(best.begin(), last, best.end(), better);
        threshold = last->logit;
        best.resize(wanted);
    };
    for_each_above(row, threshold, [&](int32_t i, float logit) {
        best.push_back({i, logit});
        if (best.size() >= buffer_size) shrink();
    });
    if (best.empty()) throw_all_forbidden(row);
    if (best.size() > wanted) shrink();
    std::sort(best.begin(), best.end(), better);
}

void allowed_of_row(const LogitRow & row, std::vector<ScoredToken> & all) {
    all.clear();
    const float floor = minus_infinity;
    for_each_above(row, floor, [&](int32_t i, float logit) { all.push_back({i, logit}); });
    if (all.empty()) throw_all_forbidden(row);
}

} // namespace pyspec
