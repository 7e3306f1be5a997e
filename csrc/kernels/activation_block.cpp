#include "kernels/activation_block.h"

#include <cmath>

namespace pyspec {

namespace {

constexpr uint32_t infinity_bits = 0x7f800000;

uint32_t bits_of(float x) {
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

} // namespace

void quantise_row(const float * x, size_t n, ActivationBlock * row) {
    for (size_t b = 0; b < n / 32; ++b, x += 32) {
        // Magnitudes compare like their bits, and bits vectorise; what is not finite is larger than everything else.
        uint32_t largest_bits = 0;
        for (int i = 0; i < 32; ++i) {
            const uint32_t magnitude = bits_of(x[i]) & 0x7fffffffu;
            largest_bits             = magnitude > largest_bits ? magnitude : largest_bits;
        }
        const bool finite = largest_bits < infinity_bits;
        float largest;
        __builtin_memcpy(&largest, &largest_bits, sizeof largest);
        // A block of tiny values would make the factor infinite; they are far below anything that matters.
        const float inverse = 127.0f / largest;
        const float factor  = finite && bits_of(inverse) < infinity_bits ? inverse : 0.0f;

        ActivationBlock & block = row[b];
        int32_t sums[2]         = {0, 0};
        for (int half = 0; half < 2; ++half) {
            int32_t sum = 0;
            for (int i = 16 * half; i < 16 * half + 16; ++i) {
                // Adding 1.5 * 2^23 rounds to the nearest integer, ties to even, and leaves it in the low bits.
                const float shifted = finite ? x[i] * factor + 12582912.0f : 12582912.0f;
                const int32_t whole = static_cast<int32_t>(bits_of(shifted)) - 0x4b400000;
                block.q[i]          = static_cast<int8_t>(whole);
                sum += whole;
            }
            sums[half] = sum;
        }
        block.half_sum[0] = sums[0];
        block.half_sum[1] = sums[1];
        block.scale       = finite ? largest / 127.0f : NAN;
        block.sum         = block.scale * static_cast<float>(sums[0] + sums[1]);
    }
}

} // namespace pyspec
