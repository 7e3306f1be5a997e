#include "sampling/scan.h"

#include "support/error.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace pyspec {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
constexpr float plus_infinity  = std::numeric_limits<float>::infinity();
constexpr int32_t block_size   = 128; // floats looked at together; almost all blocks are skipped after one comparison

// Vector types of GCC and Clang: lowered to whatever the target has. Plain loops are not enough here, because a
// compiler may not reorder a floating-point maximum by itself.
constexpr int32_t lanes = 4; // 128 bits: GCC takes wider vectors apart on targets without AVX
typedef float FloatLanes __attribute__((vector_size(lanes * sizeof(float))));
typedef int32_t MaskLanes __attribute__((vector_size(lanes * sizeof(float))));

struct BlockSummary {
    float max;         // of the entries that can be ordered
    bool has_unusable; // NaN or +infinity
};

BlockSummary summarise(const float * x) noexcept {
    constexpr int32_t chains = 8; // independent chains hide the latency of the compare
    FloatLanes max[chains];
    MaskLanes usable[chains];
    for (int32_t c = 0; c < chains; ++c) {
        max[c]    = FloatLanes{} + minus_infinity;
        usable[c] = ~MaskLanes{};
    }
    for (int32_t i = 0; i < block_size; i += chains * lanes) {
        for (int32_t c = 0; c < chains; ++c) {
            FloatLanes value;
            std::memcpy(&value, x + i + c * lanes, sizeof value);
            max[c] = value > max[c] ? value : max[c];
            usable[c] &= value < plus_infinity; // false for NaN as well
        }
    }
    for (int32_t c = 1; c < chains; ++c) {
        max[0] = max[c] > max[0] ? max[c] : max[0];
        usable[0] &= usable[c];
    }
    BlockSummary result{minus_infinity, false};
    for (int32_t lane = 0; lane < lanes; ++lane) {
        result.max = max[0][lane] > result.max ? max[0][lane] : result.max;
        result.has_unusable |= usable[0][lane] == 0;
    }
    return result;
}

// Calls visit(first, end, block maximum) for each block, and refuses rows that no order can be put on.
template <typename Visit> void for_each_block(const float * logits, int32_t n, Visit visit) {
    for (int32_t first = 0; first < n; first += block_size) {
        const int32_t end = std::min(n, first + block_size);
        BlockSummary block;
        if (end - first == block_size) {
            block = summarise(logits + first);
        } else {
            float padded[block_size];
            std::fill(std::copy(logits + first, logits + end, padded), padded + block_size, minus_infinity);
            block = summarise(padded);
        }
        if (block.has_unusable) {
            for (int32_t i = first; i < end; ++i) {
                if (!(logits[i] < plus_infinity)) {
                    throw Error(PYSPEC_OPTION, format("the logit of token %d is %s; logits must be finite or -infinity",
                                                      i, std::isnan(logits[i]) ? "not a number" : "+infinity"));
                }
            }
        }
        visit(first, end, block.max);
    }
}

[[noreturn]] void throw_all_forbidden(int32_t n) {
    throw Error(PYSPEC_OPTION, format("no token can be chosen: all %d logits are -infinity (forbidden)", n));
}

} // namespace

int32_t arg_max(const float * logits, int32_t n) {
    float best         = minus_infinity;
    int32_t best_first = -1;
    int32_t best_end   = -1;
    for_each_block(logits, n, [&](int32_t first, int32_t end, float max) {
        if (max > best) { // strictly: an equal maximum further on has a higher id
            best       = max;
            best_first = first;
            best_end   = end;
        }
    });
    if (best_first < 0) throw_all_forbidden(n);
    return static_cast<int32_t>(std::find(logits + best_first, logits + best_end, best) - logits);
}

void top_k_of_row(const float * logits, int32_t n, int32_t k, std::vector<ScoredToken> & best) {
    const auto better = [](const ScoredToken & a, const ScoredToken & b) {
        return ranks_before(a.logit, a.token, b.logit, b.token);
    };
    const size_t wanted = static_cast<size_t>(std::min(k, n));
    // Collect everything above a threshold; when the buffer is full keep the best `wanted` and raise the threshold to
    // the worst of them. Ids only grow, so a later logit equal to the threshold cannot be among the best: hence
    // "greater".
    const size_t buffer_size = 2 * wanted + block_size;
    float threshold          = minus_infinity;
    best.clear();
    best.reserve(buffer_size + block_size);
    const auto shrink = [&] {
        const auto last = best.begin() + static_cast<std::ptrdiff_t>(wanted) - 1;
        std::nth_element(best.begin(), last, best.end(), better);
        threshold = last->logit;
        best.resize(wanted);
    };
    for_each_block(logits, n, [&](int32_t first, int32_t end, float max) {
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
