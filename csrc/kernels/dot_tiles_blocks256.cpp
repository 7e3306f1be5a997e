// K-quants: blocks of 256 values in groups with small integer scales. Products of bytes are summed in 16 bits (no
// overflow: at most 63 * 127 * 2), multiplied by the group scale into 32 bits, and become one float vector for each
// block.
//
// For a column: sum over blocks, in order, of float(sum of group_scale * dot) * (scale * scale_y) on 16 lanes; for Q4_K
// a second sum of float(sum of group_offset * sum_y) * (offset * scale_y) on 8 lanes, subtracted at the end; then one
// fixed tree over the lanes.
#include "kernels/activation_rows.h"
#include "kernels/dot_tiles.h"
#include "kernels/weight_blocks.h"

#ifdef PYSPEC_HAVE_DOT_TILES
#include <immintrin.h>

namespace pyspec {

namespace {

// Index vectors that spread 16-bit scales over the 32 lanes of a product vector.
__m512i spread(int first, int lanes_per_scale) {
    alignas(64) int16_t index[32];
    for (int i = 0; i < 32; ++i) {
        index[i] = static_cast<int16_t>(first + i / lanes_per_scale);
    }
    return _mm512_load_si512(index);
}

__m256i load256(const void * p) {
    return _mm256_loadu_si256(static_cast<const __m256i *>(p));
}

template <int n_columns>
void columns_q4_k(const BlockQ4_K * blocks, const char * x, size_t x_stride, const Blocks256Row & layout, float * out) {
    const __m512i spread_scale[4] = {spread(0, 16), spread(2, 16), spread(4, 16), spread(6, 16)};
    const __m256i spread_offset   = _mm256_set_epi16(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);

    __m512 sum[n_columns];
    __m256 taken[n_columns]; // what offsets take away
    for (int c = 0; c < n_columns; ++c) {
        sum[c]   = _mm512_setzero_ps();
        taken[c] = _mm256_setzero_ps();
    }
    for (size_t b = 0; b < layout.n_blocks; ++b) {
        const BlockQ4_K & block = blocks[b];
        // 6-bit numbers of groups 0..3 are the low bits of bytes 0..3 (scales) and 4..7 (offsets); those of groups 4..7
        // have their low four bits in bytes 8..11 (low nibble scale, high nibble offset) and their top two above the
        // former.
        uint32_t a, o, m;
        __builtin_memcpy(&a, block.packed, 4);
        __builtin_memcpy(&o, block.packed + 4, 4);
        __builtin_memcpy(&m, block.packed + 8, 4);
        const uint32_t scale_high  = (m & 0x0f0f0f0fu) | (a >> 2 & 0x30303030u);
        const uint32_t offset_high = (m >> 4 & 0x0f0f0f0fu) | (o >> 2 & 0x30303030u);
        const uint64_t scales8     = static_cast<uint64_t>(scale_high) << 32 | (a & 0x3f3f3f3fu);
        const uint64_t offsets8    = static_cast<uint64_t>(offset_high) << 32 | (o & 0x3f3f3f3fu);
        const __m512i scales16 =
            _mm512_castsi128_si512(_mm_cvtepu8_epi16(_mm_cvtsi64_si128(static_cast<long long>(scales8))));
        const __m256i offsets16 = _mm256_permutexvar_epi16(
            spread_offset,
            _mm256_castsi128_si256(_mm_cvtepu8_epi16(_mm_cvtsi64_si128(static_cast<long long>(offsets8)))));

        __m512i w[4];
        __m512i scale[4];
        for (int i = 0; i < 4; ++i) {
            const __m256i raw = load256(block.q + 32 * i);
            w[i]     = _mm512_and_si512(_mm512_inserti64x4(_mm512_castsi256_si512(raw), _mm256_srli_epi16(raw, 4), 1),
                                        _mm512_set1_epi8(0x0f));
            scale[i] = _mm512_permutexvar_epi16(spread_scale[i], scales16);
        }
        const float block_scale  = _cvtsh_ss(block.scale);
        const float block_offset = _cvtsh_ss(block.offset);
        for (int c = 0; c < n_columns; ++c) {
            const char * row = x + static_cast<size_t>(c) * x_stride;
            const int8_t * y = layout.q(row) + 256 * b;
            __m512i dot      = _mm512_setzero_si512();
            for (int i = 0; i < 4; ++i) {
                const __m512i pairs = _mm512_maddubs_epi16(w[i], _mm512_loadu_si512(y + 64 * i));
                dot                 = _mm512_dpwssd_epi32(dot, pairs, scale[i]);
            }
            const __m256i lost  = _mm256_madd_epi16(offsets16, load256(layout.sum16(row) + 16 * b));
            const float scale_y = layout.scale(row)[b];
            sum[c]   = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_set1_ps(block_scale * scale_y), sum[c]);
            taken[c] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(lost), _mm256_set1_ps(block_offset * scale_y), taken[c]);
        }
    }
    for (int c = 0; c < n_columns; ++c) {
        out[c] = _mm512_reduce_add_ps(_mm512_sub_ps(sum[c], _mm512_zextps256_ps512(taken[c])));
    }
}

template <int n_columns>
void columns_q6_k(const BlockQ6_K * blocks, const char * x, size_t x_stride, const Blocks256Row & layout, float * out) {
    const __m512i spread_scale[4] = {spread(0, 8), spread(4, 8), spread(8, 8), spread(12, 8)};
    // The four quarters of a half take bits 0-1, 2-3, 4-5 and 6-7 of each high byte.
    const __m512i shift_low  = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(2), 1);
    const __m512i shift_high = _mm512_add_epi16(shift_low, _mm512_set1_epi16(4));
    const __m512i two_bits   = _mm512_set1_epi8(3);
    const __m512i low_nibble = _mm512_set1_epi8(0x0f);

    __m512 sum[n_columns];
    for (int c = 0; c < n_columns; ++c) {
        sum[c] = _mm512_setzero_ps();
    }
    for (size_t b = 0; b < layout.n_blocks; ++b) {
        const BlockQ6_K & block = blocks[b];
        const __m256i scales16 =
            _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(block.group_scale)));
        __m512i w[4];
        __m512i scale[4];
        for (int half = 0; half < 2; ++half) {
            const __m512i low  = _mm512_loadu_si512(block.low + 64 * half);
            const __m512i high = _mm512_broadcast_i64x4(load256(block.high + 32 * half));
            const auto bits    = [&](__m512i shift) {
                return _mm512_slli_epi16(_mm512_and_si512(_mm512_srlv_epi16(high, shift), two_bits), 4);
            };
            w[2 * half] = _mm512_or_si512(_mm512_and_si512(low, low_nibble), bits(shift_low));
            w[2 * half + 1] =
                _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(low, 4), low_nibble), bits(shift_high));
        }
        for (int i = 0; i < 4; ++i) {
            scale[i] = _mm512_permutexvar_epi16(spread_scale[i], _mm512_castsi256_si512(scales16));
        }
        const float block_scale = _cvtsh_ss(block.scale);
        for (int c = 0; c < n_columns; ++c) {
            const char * row = x + static_cast<size_t>(c) * x_stride;
            const int8_t * y = layout.q(row) + 256 * b;
            // Values are stored with 32 added: take 32 * group scale * sum of y away, in integers.
            const __m256i lost = _mm256_slli_epi32(_mm256_madd_epi16(scales16, load256(layout.sum16(row) + 16 * b)), 5);
            __m512i dot        = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_zextsi256_si512(lost));
            for (int i = 0; i < 4; ++i) {
                const __m512i pairs = _mm512_maddubs_epi16(w[i], _mm512_loadu_si512(y + 64 * i));
                dot                 = _mm512_dpwssd_epi32(dot, pairs, scale[i]);
            }
            const float factor = block_scale * layout.scale(row)[b];
            sum[c]             = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_set1_ps(factor), sum[c]);
        }
    }
    for (int c = 0; c < n_columns; ++c) {
        out[c] = _mm512_reduce_add_ps(sum[c]);
    }
}

void tile_q4_k(const void * weight_row, const char * x, size_t x_stride, size_t n, int n_columns, float * out) {
    const auto * blocks = static_cast<const BlockQ4_K *>(weight_row);
    const Blocks256Row layout(n);
    switch (n_columns) {
    case 1:
        return columns_q4_k<1>(blocks, x, x_stride, layout, out);
    case 2:
        return columns_q4_k<2>(blocks, x, x_stride, layout, out);
    case 3:
        return columns_q4_k<3>(blocks, x, x_stride, layout, out);
    case 4:
        return columns_q4_k<4>(blocks, x, x_stride, layout, out);
    case 5:
        return columns_q4_k<5>(blocks, x, x_stride, layout, out);
    case 6:
        return columns_q4_k<6>(blocks, x, x_stride, layout, out);
    case 7:
        return columns_q4_k<7>(blocks, x, x_stride, layout, out);
    default:
        return columns_q4_k<8>(blocks, x, x_stride, layout, out);
    }
}

void tile_q6_k(const void * weight_row, const char * x, size_t x_stride, size_t n, int n_columns, float * out) {
    const auto * blocks = static_cast<const BlockQ6_K *>(weight_row);
    const Blocks256Row layout(n);
    switch (n_columns) {
    case 1:
        return columns_q6_k<1>(blocks, x, x_stride, layout, out);
    case 2:
        return columns_q6_k<2>(blocks, x, x_stride, layout, out);
    case 3:
        return columns_q6_k<3>(blocks, x, x_stride, layout, out);
    case 4:
        return columns_q6_k<4>(blocks, x, x_stride, layout, out);
    case 5:
        return columns_q6_k<5>(blocks, x, x_stride, layout, out);
    case 6:
        return columns_q6_k<6>(blocks, x, x_stride, layout, out);
    case 7:
        return columns_q6_k<7>(blocks, x, x_stride, layout, out);
    default:
        return columns_q6_k<8>(blocks, x, x_stride, layout, out);
    }
}

} // namespace

DotTile dot_tile_blocks256(ggml_type type) {
    switch (type) {
    case GGML_TYPE_Q4_K:
        return tile_q4_k;
    case GGML_TYPE_Q6_K:
        return tile_q6_k;
    default:
        return nullptr;
    }
}

} // namespace pyspec

#else

namespace pyspec {
DotTile dot_tile_blocks256(ggml_type) {
    return nullptr;
}
} // namespace pyspec

#endif
