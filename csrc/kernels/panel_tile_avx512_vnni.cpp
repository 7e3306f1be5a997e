// AVX-512 with VNNI: the 16 rows of a panel are the 16 lanes of a vector; four values of each row meet four values of a
// column in one dot-product instruction. A block is unpacked once for all columns.
#include "kernels/panel_tile.h"

#if defined(__x86_64__)

#include <immintrin.h>

namespace pyspec {

namespace avx512_vnni {
namespace {

__m512i load(const uint8_t * p) {
    return _mm512_loadu_si512(p);
}
__m512 halves(const uint8_t * p) { // 16 f16
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)));
}
__m512 unsigned_bytes(const uint8_t * p) { // 16 of them
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))));
}
__m512 signed_bytes(const uint8_t * p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))));
}
__m512i low_nibbles(__m512i x) {
    return _mm512_and_si512(x, _mm512_set1_epi8(0x0f));
}
__m512i high_nibbles(__m512i x) {
    return _mm512_and_si512(_mm512_srli_epi16(x, 4), _mm512_set1_epi8(0x0f));
}
// nibbles | bits of `high` under `mask`
__m512i with_high(__m512i nibbles, __m512i high, int mask) {
    return _mm512_ternarylogic_epi32(nibbles, high, _mm512_set1_epi8(static_cast<char>(mask)), 0xf8);
}

// A block, ready for its columns: four values of 16 rows in each of eight vectors.
struct Unpacked {
    __m512i w[8];
    __m512 scale[2]; // the second only for groups of 16
    __m512 offset;
};

void nibbles_of_block(const uint8_t * q, __m512i * w) {
    for (int p = 0; p < 4; ++p) {
        const __m512i both = load(q + 64 * p);
        w[p]               = low_nibbles(both);
        w[p + 4]           = high_nibbles(both);
    }
}
void fifth_bits_of_block(const uint8_t * high, __m512i * w) {
    const __m512i bits = load(high);
    w[0]               = with_high(w[0], _mm512_slli_epi16(bits, 4), 0x10);
    w[1]               = with_high(w[1], _mm512_slli_epi16(bits, 3), 0x10);
    w[2]               = with_high(w[2], _mm512_slli_epi16(bits, 2), 0x10);
    w[3]               = with_high(w[3], _mm512_slli_epi16(bits, 1), 0x10);
    w[4]               = with_high(w[4], bits, 0x10);
    w[5]               = with_high(w[5], _mm512_srli_epi16(bits, 1), 0x10);
    w[6]               = with_high(w[6], _mm512_srli_epi16(bits, 2), 0x10);
    w[7]               = with_high(w[7], _mm512_srli_epi16(bits, 3), 0x10);
}

// Types. zero_point: 0 for types with offsets. n_scales: 2 for groups of 16. quant_bytes: of a block.
template <int zero, bool has_offset, bool has_high> struct Blocks32 {
    static constexpr int zero_point     = zero;
    static constexpr int n_scales       = 1;
    static constexpr bool offsets       = has_offset;
    static constexpr size_t quant_bytes = has_high ? 320 : 256;
    static void unpack(const PanelTask & t, size_t b, Unpacked & u) {
        const uint8_t * q = t.quants + b * quant_bytes;
        nibbles_of_block(q, u.w);
        if constexpr (has_high) {
            fifth_bits_of_block(q + 256, u.w);
        }
        const uint8_t * s = t.scales + b * (has_offset ? 64 : 32);
        u.scale[0]        = halves(s);
        if constexpr (has_offset) {
            u.offset = halves(s + 32);
        }
    }
};
struct Q8_0 {
    static constexpr int zero_point     = 128;
    static constexpr int n_scales       = 1;
    static constexpr bool offsets       = false;
    static constexpr size_t quant_bytes = 512;
    static void unpack(const PanelTask & t, size_t b, Unpacked & u) {
        for (int p = 0; p < 8; ++p) {
            u.w[p] = _mm512_xor_si512(load(t.quants + b * 512 + 64 * p), _mm512_set1_epi8(static_cast<char>(0x80)));
        }
        u.scale[0] = halves(t.scales + b * 32);
    }
};
template <bool has_high> struct GroupsOf32 { // Q4_K, Q5_K
    static constexpr int zero_point     = 0;
    static constexpr int n_scales       = 1;
    static constexpr bool offsets       = true;
    static constexpr size_t quant_bytes = has_high ? 320 : 256;
    static void unpack(const PanelTask & t, size_t b, Unpacked & u) {
        const size_t super    = b / 8;
        const unsigned group  = b % 8;
        const uint8_t * whole = t.quants + super * (has_high ? 2560 : 2048);
        const uint8_t * q     = whole + (group / 2) * 512;
        if (group % 2 == 0) {
            for (int p = 0; p < 8; ++p) {
                u.w[p] = low_nibbles(load(q + 64 * p));
            }
        } else {
            for (int p = 0; p < 8; ++p) {
                u.w[p] = high_nibbles(load(q + 64 * p));
            }
        }
        if constexpr (has_high) {
            const __m128i right = _mm_cvtsi32_si128(static_cast<int>(group > 4 ? group - 4 : 0));
            const __m128i left  = _mm_cvtsi32_si128(static_cast<int>(group < 4 ? 4 - group : 0));
            for (int p = 0; p < 8; ++p) {
                const __m512i bits = load(whole + 2048 + 64 * p);
                u.w[p]             = with_high(u.w[p], _mm512_sll_epi16(_mm512_srl_epi16(bits, right), left), 0x10);
            }
        }
        const uint8_t * d = t.supers + super * 64;
        const uint8_t * s = t.scales + b * 32;
        u.scale[0]        = _mm512_mul_ps(halves(d), unsigned_bytes(s));
        const __m512 lost = _mm512_mul_ps(halves(d + 32), unsigned_bytes(s + 16));
        u.offset          = _mm512_sub_ps(_mm512_setzero_ps(), lost);
    }
};
struct Q6_K {
    static constexpr int zero_point                = 32;
    static constexpr int n_scales                  = 2;
    [[maybe_unused]] static constexpr bool offsets = false;
    static constexpr size_t quant_bytes            = 384;
    static void unpack(const PanelTask & t, size_t b, Unpacked & u) {
        const size_t super     = b / 8;
        const unsigned half    = b % 8 / 4;
        const unsigned quarter = b % 4;
        const uint8_t * whole  = t.quants + super * 3072;
        const uint8_t * low    = whole + half * 1024 + (quarter % 2) * 512;
        const uint8_t * high   = whole + 2048 + half * 512;
        const __m128i right    = _mm_cvtsi32_si128(static_cast<int>(quarter == 3 ? 2 : 0));
        const __m128i left     = _mm_cvtsi32_si128(static_cast<int>(quarter == 3 ? 0 : 4 - 2 * quarter));
        for (int p = 0; p < 8; ++p) {
            const __m512i both    = load(low + 64 * p);
            const __m512i nibbles = quarter < 2 ? low_nibbles(both) : high_nibbles(both);
            const __m512i bits    = _mm512_sll_epi16(_mm512_srl_epi16(load(high + 64 * p), right), left);
            u.w[p]                = with_high(nibbles, bits, 0x30);
        }
        const __m512 d = halves(t.supers + super * 32);
        u.scale[0]     = _mm512_mul_ps(d, signed_bytes(t.scales + b * 32));
        u.scale[1]     = _mm512_mul_ps(d, signed_bytes(t.scales + b * 32 + 16));
    }
};

int32_t four(const int8_t * q) {
    int32_t value;
    __builtin_memcpy(&value, q, sizeof value);
    return value;
}

// Two sums, because the instruction takes five cycles and each waits for the one before; whole numbers, so it makes no
// difference to the result.
template <int first, int last> __m512i dot(__m512i acc, const __m512i * w, const ActivationBlock & y) {
    __m512i other = _mm512_setzero_si512();
    for (int j = first; j < last; j += 2) {
        acc   = _mm512_dpbusd_epi32(acc, w[j], _mm512_set1_epi32(four(y.q + 4 * j)));
        other = _mm512_dpbusd_epi32(other, w[j + 1], _mm512_set1_epi32(four(y.q + 4 * (j + 1))));
    }
    return _mm512_add_epi32(acc, other);
}

// Weights come from memory once and are used at once when columns are few; the processor's own prefetching then leaves
// half of the bandwidth unused. So they are asked for twice: far ahead into the second-level cache, which can wait for
// three times as many lines as the first, and shortly before use into the first. One panel follows the other, so
// looking ahead past the end finds the next one. The distances are measured.
template <typename Type> void prefetch(const PanelTask & t, size_t b) {
    constexpr size_t far   = Type::quant_bytes <= 256 ? 32768 : 8192;
    constexpr size_t near  = 2048;
    const uint8_t * quants = t.quants + b * Type::quant_bytes;
    for (size_t i = 0; i < Type::quant_bytes; i += 64) {
        _mm_prefetch(reinterpret_cast<const char *>(quants + i + far), _MM_HINT_T1);
        _mm_prefetch(reinterpret_cast<const char *>(quants + i + near), _MM_HINT_T0);
    }
}

template <typename Type, int n_columns> void columns(const PanelTask & t) {
    const char * x = static_cast<const char *>(t.x);
    __m512 sum[n_columns];
    for (int c = 0; c < n_columns; ++c) {
        sum[c] = t.resume ? _mm512_loadu_ps(t.out + 16 * c) : _mm512_setzero_ps();
    }
    Unpacked u;
    for (size_t b = 0; b < t.n_blocks; ++b) {
        prefetch<Type>(t, b);
        Type::unpack(t, b, u);
        const char * of_block = x + b * sizeof(ActivationBlock);
        for (int c = 0; c < n_columns; ++c, of_block += t.x_stride) {
            const auto * y       = reinterpret_cast<const ActivationBlock *>(of_block);
            const __m512 scale_y = _mm512_set1_ps(y->scale);
            if constexpr (Type::n_scales == 2) {
                const __m512i i0 = dot<0, 4>(_mm512_set1_epi32(-Type::zero_point * y->half_sum[0]), u.w, *y);
                const __m512i i1 = dot<4, 8>(_mm512_set1_epi32(-Type::zero_point * y->half_sum[1]), u.w, *y);
                sum[c]           = _mm512_fmadd_ps(_mm512_cvtepi32_ps(i0), _mm512_mul_ps(u.scale[0], scale_y), sum[c]);
                sum[c]           = _mm512_fmadd_ps(_mm512_cvtepi32_ps(i1), _mm512_mul_ps(u.scale[1], scale_y), sum[c]);
            } else {
                const __m512i start = Type::zero_point == 0
                                          ? _mm512_setzero_si512()
                                          : _mm512_set1_epi32(-Type::zero_point * (y->half_sum[0] + y->half_sum[1]));
                const __m512i i     = dot<0, 8>(start, u.w, *y);
                sum[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(i), _mm512_mul_ps(u.scale[0], scale_y), sum[c]);
                if constexpr (Type::offsets) {
                    sum[c] = _mm512_fmadd_ps(u.offset, _mm512_set1_ps(y->sum), sum[c]);
                }
            }
        }
    }
    for (int c = 0; c < n_columns; ++c) {
        _mm512_storeu_ps(t.out + 16 * c, sum[c]);
    }
}

template <typename Type> void tile(const PanelTask & t) {
    switch (t.n_columns) {
#define PYSPEC_COLUMNS(n)                                                                                              \
    case n:                                                                                                            \
        return columns<Type, n>(t);
        PYSPEC_COLUMNS(1)
        PYSPEC_COLUMNS(2)
        PYSPEC_COLUMNS(3)
        PYSPEC_COLUMNS(4)
        PYSPEC_COLUMNS(5)
        PYSPEC_COLUMNS(6)
        PYSPEC_COLUMNS(7)
        PYSPEC_COLUMNS(8)
        PYSPEC_COLUMNS(9)
        PYSPEC_COLUMNS(10)
        PYSPEC_COLUMNS(11)
        PYSPEC_COLUMNS(12)
        PYSPEC_COLUMNS(13)
        PYSPEC_COLUMNS(14)
        PYSPEC_COLUMNS(15)
        PYSPEC_COLUMNS(16)
#undef PYSPEC_COLUMNS
    }
}

#include "kernels/panel_tile_types.inc"

} // namespace
} // namespace avx512_vnni

namespace avx512_vnni {
extern const FloatTiles float_tiles;
extern const AttentionRoutines attention_routines;
extern const RowRoutines row_routines;
} // namespace avx512_vnni
extern const TileSet avx512_vnni_tiles{"avx512_vnni",
                                       16,
                                       avx512_vnni::tile_of,
                                       &avx512_vnni::float_tiles,
                                       &avx512_vnni::attention_routines,
                                       &avx512_vnni::row_routines};

} // namespace pyspec

#endif
