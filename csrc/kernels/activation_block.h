// Activations as products take them: rows of blocks of 32 values, x = scale * q.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pyspec {

struct ActivationBlock {
    int8_t q[32];
    float scale;
    float sum;           // scale * (sum of q)
    int32_t half_sum[2]; // sum of q over values 0..15 and 16..31
};
static_assert(sizeof(ActivationBlock) == 48);

// x[0 .. n) -> n / 32 blocks. n is a multiple of 32. Symmetric: scale = max |x| / 127, q rounded to nearest, ties to
// even. Values that are not finite make a block whose scale is not finite, and so do the results.
void quantise_row(const float * x, size_t n, ActivationBlock * row);

} // namespace pyspec
