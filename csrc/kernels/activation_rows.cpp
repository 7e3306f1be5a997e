#include "kernels/activation_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace pyspec {

namespace {

// Symmetric 8-bit quantisation of one block: q = round(x / scale), scale = max |x| / 127. Ties to even.
// The loops have no order-dependent float sums, so the compiler may vectorise them as it likes.
float quantise_block(const float * x, size_t n, int8_t * q) {
    float largest = 0.0f;
    for (size_t i = 0; i < n; ++i) {
        largest = std::max(largest, std::fabs(x[i]));
    }
    const float scale   = largest / 127.0f;
    const float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
    for (size_t i = 0; i < n; ++i) {
        q[i] = static_cast<int8_t>(std::lrintf(x[i] * inverse));
    }
    return scale;
}

int32_t sum_of(const int8_t * q, size_t n) {
    int32_t sum = 0;
    for (size_t i = 0; i < n; ++i) {
        sum += q[i];
    }
    return sum;
}

} // namespace

size_t row_bytes(ActivationKind kind, size_t n) {
    return kind == ActivationKind::blocks32 ? Blocks32Row(n).bytes : Blocks256Row(n).bytes;
}

void quantise_row(ActivationKind kind, const float * x, size_t n, char * row) {
    int8_t * q = reinterpret_cast<int8_t *>(row);
    if (kind == ActivationKind::blocks32) {
        const Blocks32Row layout(n);
        std::memset(row + n, 0, layout.bytes - n);
        float * scale = reinterpret_cast<float *>(row + layout.scale_at);
        float * sum   = reinterpret_cast<float *>(row + layout.sum_at);
        for (size_t b = 0; b < layout.n_blocks; ++b) {
            scale[b] = quantise_block(x + 32 * b, 32, q + 32 * b);
            sum[b]   = scale[b] * static_cast<float>(sum_of(q + 32 * b, 32));
        }
        return;
    }
    const Blocks256Row layout(n);
    std::memset(row + layout.sum_at, 0, layout.bytes - layout.sum_at);
    int16_t * sums = reinterpret_cast<int16_t *>(row + layout.sum_at);
    float * scale  = reinterpret_cast<float *>(row + layout.scale_at);
    for (size_t b = 0; b < layout.n_blocks; ++b) {
        scale[b] = quantise_block(x + 256 * b, 256, q + 256 * b);
    }
    for (size_t i = 0; i < n / 16; ++i) {
        sums[i] = static_cast<int16_t>(sum_of(q + 16 * i, 16));
    }
}

} // namespace pyspec
