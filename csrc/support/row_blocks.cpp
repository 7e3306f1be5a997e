#include "support/row_blocks.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace pyspec {

namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
constexpr float plus_infinity  = std::numeric_limits<float>::infinity();

// Vector types of GCC and Clang: plain loops are not enough here, because a compiler may not reorder a floating-point
// maximum by itself. As wide as the target has them: GCC takes wider vectors apart.
#if defined(__AVX512F__)
constexpr int32_t lanes = 16;
#elif defined(__AVX__)
constexpr int32_t lanes = 8;
#else
constexpr int32_t lanes = 4;
#endif
typedef float FloatLanes __attribute__((vector_size(lanes * sizeof(float))));
typedef int32_t MaskLanes __attribute__((vector_size(lanes * sizeof(float))));

float whole_block(const float * x) noexcept {
    constexpr int32_t chains = row_block / lanes < 8 ? row_block / lanes : 8; // hide the latency of the compare
    FloatLanes max[chains];
    MaskLanes usable[chains];
    for (int32_t c = 0; c < chains; ++c) {
        max[c]    = FloatLanes{} + minus_infinity;
        usable[c] = ~MaskLanes{};
    }
    for (int32_t i = 0; i < row_block; i += chains * lanes) {
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
    float result = minus_infinity;
    bool all     = true;
    for (int32_t lane = 0; lane < lanes; ++lane) {
        result = max[0][lane] > result ? max[0][lane] : result;
        all    = all && usable[0][lane] != 0;
    }
    return all ? result : plus_infinity;
}

} // namespace

float block_maximum(const float * x, int32_t n) noexcept {
    if (n == row_block) return whole_block(x);
    float padded[row_block];
    std::fill(std::copy(x, x + n, padded), padded + row_block, minus_infinity);
    return whole_block(padded);
}

} // namespace pyspec
