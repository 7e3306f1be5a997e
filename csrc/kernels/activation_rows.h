// Layout of one quantised activation row. All parts start at multiples of 64 bytes and are padded with zeros, so that
// kernels may read whole vectors.
//
// blocks32 (n values):  int8 q[n up to 64], float scale[blocks up to 16], float scaled_sum[blocks up to 16]
//                       x = scale * q, scaled_sum = scale * sum of q
// blocks256 (n values): int8 q[n], int16 sum16[n / 16] (sums of 16 q), float scale[n / 256]
#pragma once

#include "kernels/product.h"

#include <cstddef>
#include <cstdint>

namespace pyspec {

constexpr size_t round_up(size_t n, size_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

struct Blocks32Row {
    size_t n_blocks; // of 32 values
    size_t scale_at; // byte offsets in the row
    size_t sum_at;
    size_t bytes;

    explicit Blocks32Row(size_t n)
        : n_blocks(n / 32), scale_at(round_up(n, 64)), sum_at(scale_at + round_up(n_blocks, 16) * sizeof(float)),
          bytes(sum_at + round_up(n_blocks, 16) * sizeof(float)) {}

    const int8_t * q(const char * row) const { return reinterpret_cast<const int8_t *>(row); }
    const float * scale(const char * row) const { return reinterpret_cast<const float *>(row + scale_at); }
    const float * scaled_sum(const char * row) const { return reinterpret_cast<const float *>(row + sum_at); }
};

struct Blocks256Row {
    size_t n_blocks;
    size_t sum_at;
    size_t scale_at;
    size_t bytes;

    explicit Blocks256Row(size_t n)
        : n_blocks(n / 256), sum_at(n), scale_at(sum_at + round_up(n / 16 * sizeof(int16_t), 64)),
          bytes(scale_at + round_up(n_blocks * sizeof(float), 64)) {}

    const int8_t * q(const char * row) const { return reinterpret_cast<const int8_t *>(row); }
    const int16_t * sum16(const char * row) const { return reinterpret_cast<const int16_t *>(row + sum_at); }
    const float * scale(const char * row) const { return reinterpret_cast<const float *>(row + scale_at); }
};

size_t row_bytes(ActivationKind kind, size_t n);
// Quantises x[0 .. n) into one row (row_bytes(kind, n) bytes).
void quantise_row(ActivationKind kind, const float * x, size_t n, char * row);

} // namespace pyspec
