// Weight types with blocks of 32 values: x = scale * q + offset, q unsigned (types with signed values are shifted,
// which moves into the offset). Two blocks fill a vector.
//
// For a column: sum over block pairs, in order, of float(dot(q, y)) * (scale * scale_y) on 16 lanes (8 for each block),
// plus sum over 16-block groups of offset * scaled_sum_y on 16 lanes; then one fixed tree over the lanes.
#include "kernels/activation_rows.h"
#include "kernels/dot_tiles.h"
#include "kernels/weight_blocks.h"

#ifdef PYSPEC_HAVE_DOT_TILES
#include <immintrin.h>

namespace pyspec {

namespace {

constexpr size_t max_blocks = 2048; // rows of up to 65536 values

__m256i nibbles(const uint8_t * q) { // 16 bytes -> 32 values
    const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i *>(q));
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(raw, 4), raw), _mm256_set1_epi8(0x0f));
}

__m256i fifth_bits(const uint8_t * high) { // 32 bits -> 0 or 16 in each byte
    uint32_t bits;
    __builtin_memcpy(&bits, high, sizeof bits);
    return _mm256_maskz_set1_epi8(bits, 0x10);
}

// Per type: the values of one block as unsigned bytes, and its offset given its scale.
struct Q4_0 {
    using Block = BlockQ4_0;
    static __m256i values(const Block & b) { return nibbles(b.q); }
    static float offset(const Block &, float scale) { return -8.0f * scale; }
};
struct Q4_1 {
    using Block = BlockQ4_1;
    static __m256i values(const Block & b) { return nibbles(b.q); }
    static float offset(const Block & b, float) { return _cvtsh_ss(b.offset); }
};
struct Q5_0 {
    using Block = BlockQ5_0;
    static __m256i values(const Block & b) { return _mm256_or_si256(nibbles(b.q), fifth_bits(b.high)); }
    static float offset(const Block &, float scale) { return -16.0f * scale; }
};
struct Q5_1 {
    using Block = BlockQ5_1;
    static __m256i values(const Block & b) { return _mm256_or_si256(nibbles(b.q), fifth_bits(b.high)); }
    static float offset(const Block & b, float) { return _cvtsh_ss(b.offset); }
};
struct Q8_0 {
    using Block = BlockQ8_0;
    static __m256i values(const Block & b) {
        const __m256i q = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(b.q));
        return _mm256_xor_si256(q, _mm256_set1_epi8(static_cast<char>(0x80))); // q + 128
    }
    static float offset(const Block &, float scale) { return -128.0f * scale; }
};

__m512 two_halves(float low, float high) {
    return _mm512_mask_broadcastss_ps(_mm512_set1_ps(low), 0xff00, _mm_set_ss(high));
}

template <typename Type, int n_columns>
void columns(const typename Type::Block * blocks, const char * x, size_t x_stride, const Blocks32Row & layout,
             float * out) {
    const size_t n_blocks = layout.n_blocks;
    alignas(64) float offsets[max_blocks];

    __m512 sum[n_columns];
    for (int c = 0; c < n_columns; ++c) {
        sum[c] = _mm512_setzero_ps();
    }
    for (size_t b = 0; b < n_blocks; b += 2) {
        const bool pair    = b + 1 < n_blocks;
        const float scale0 = _cvtsh_ss(blocks[b].scale);
        const float scale1 = pair ? _cvtsh_ss(blocks[b + 1].scale) : 0.0f;
        offsets[b]         = Type::offset(blocks[b], scale0);
        if (pair) {
            offsets[b + 1] = Type::offset(blocks[b + 1], scale1);
        }
        const __m256i high = pair ? Type::values(blocks[b + 1]) : _mm256_setzero_si256();
        const __m512i w    = _mm512_inserti64x4(_mm512_castsi256_si512(Type::values(blocks[b])), high, 1);
        const __m512 scale = two_halves(scale0, scale1);
        for (int c = 0; c < n_columns; ++c) {
            const char * row      = x + static_cast<size_t>(c) * x_stride;
            const __m512i y       = _mm512_loadu_si512(layout.q(row) + 32 * b);
            const float * scale_y = layout.scale(row) + b;
            const __m512i dot     = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w, y);
            const __m512 factor   = _mm512_mul_ps(scale, two_halves(scale_y[0], scale_y[1]));
            sum[c]                = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), factor, sum[c]);
        }
    }
    for (size_t b = 0; b < n_blocks; b += 16) {
        const size_t n_left  = n_blocks - b;
        const __mmask16 mask = n_left >= 16 ? 0xffff : static_cast<__mmask16>((1u << n_left) - 1);
        const __m512 offset  = _mm512_maskz_loadu_ps(mask, offsets + b);
        for (int c = 0; c < n_columns; ++c) {
            const float * sum_y = layout.scaled_sum(x + static_cast<size_t>(c) * x_stride) + b;
            sum[c]              = _mm512_fmadd_ps(offset, _mm512_loadu_ps(sum_y), sum[c]);
        }
    }
    for (int c = 0; c < n_columns; ++c) {
        out[c] = _mm512_reduce_add_ps(sum[c]);
    }
}

template <typename Type>
void tile(const void * weight_row, const char * x, size_t x_stride, size_t n, int n_columns, float * out) {
    const auto * blocks = static_cast<const typename Type::Block *>(weight_row);
    const Blocks32Row layout(n);
    switch (n_columns) {
    case 1:
        return columns<Type, 1>(blocks, x, x_stride, layout, out);
    case 2:
        return columns<Type, 2>(blocks, x, x_stride, layout, out);
    case 3:
        return columns<Type, 3>(blocks, x, x_stride, layout, out);
    case 4:
        return columns<Type, 4>(blocks, x, x_stride, layout, out);
    case 5:
        return columns<Type, 5>(blocks, x, x_stride, layout, out);
    case 6:
        return columns<Type, 6>(blocks, x, x_stride, layout, out);
    case 7:
        return columns<Type, 7>(blocks, x, x_stride, layout, out);
    default:
        return columns<Type, 8>(blocks, x, x_stride, layout, out);
    }
}

} // namespace

DotTile dot_tile_blocks32(ggml_type type) {
    switch (type) {
    case GGML_TYPE_Q4_0:
        return tile<Q4_0>;
    case GGML_TYPE_Q4_1:
        return tile<Q4_1>;
    case GGML_TYPE_Q5_0:
        return tile<Q5_0>;
    case GGML_TYPE_Q5_1:
        return tile<Q5_1>;
    case GGML_TYPE_Q8_0:
        return tile<Q8_0>;
    default:
        return nullptr;
    }
}

} // namespace pyspec

#else

namespace pyspec {
DotTile dot_tile_blocks32(ggml_type) {
    return nullptr;
}
} // namespace pyspec

#endif
