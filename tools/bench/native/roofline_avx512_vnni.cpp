// AVX-512 with VNNI: one instruction multiplies 64 pairs of bytes.
#include "roofline_loops.h"

#if defined(__x86_64__)

#include <immintrin.h>

namespace pyspec::bench {

namespace {

constexpr size_t look_ahead = 8192; // as the kernels do: the processor's own prefetching is not enough everywhere

uint64_t read(const uint8_t * data, size_t n) {
    __m512i sum[4];
    for (int j = 0; j < 4; ++j) {
        sum[j] = _mm512_setzero_si512();
    }
    for (size_t i = 0; i < n; i += 256) {
        for (size_t j = 0; j < 4; ++j) {
            _mm_prefetch(reinterpret_cast<const char *>(data + i + 64 * j + look_ahead), _MM_HINT_T0);
            sum[j] = _mm512_xor_si512(sum[j], _mm512_loadu_si512(data + i + 64 * j));
        }
    }
    alignas(64) uint64_t lanes[8];
    _mm512_store_si512(lanes, _mm512_xor_si512(_mm512_xor_si512(sum[0], sum[1]), _mm512_xor_si512(sum[2], sum[3])));
    uint64_t all = 0;
    for (const uint64_t lane : lanes) {
        all ^= lane;
    }
    return all;
}

// Sums enough to hide the instruction's latency (5 cycles on up to two ports). Written out, because compilers move sums
// to and fro.
constexpr int n_sums = 12;

void dot(uint64_t rounds) {
    const __m512i w    = _mm512_set1_epi8(3);
    const __m512i y    = _mm512_set1_epi8(-5);
    const __m512i zero = _mm512_setzero_si512();
    __m512i s0 = zero, s1 = zero, s2 = zero, s3 = zero, s4 = zero, s5 = zero, s6 = zero, s7 = zero, s8 = zero,
            s9 = zero, s10 = zero, s11 = zero;
    for (uint64_t i = 0; i < rounds; ++i) {
        __asm__ volatile("vpdpbusd %[y], %[w], %[s0]\n"
                         "vpdpbusd %[y], %[w], %[s1]\n"
                         "vpdpbusd %[y], %[w], %[s2]\n"
                         "vpdpbusd %[y], %[w], %[s3]\n"
                         "vpdpbusd %[y], %[w], %[s4]\n"
                         "vpdpbusd %[y], %[w], %[s5]\n"
                         "vpdpbusd %[y], %[w], %[s6]\n"
                         "vpdpbusd %[y], %[w], %[s7]\n"
                         "vpdpbusd %[y], %[w], %[s8]\n"
                         "vpdpbusd %[y], %[w], %[s9]\n"
                         "vpdpbusd %[y], %[w], %[s10]\n"
                         "vpdpbusd %[y], %[w], %[s11]\n"
                         : [s0] "+v"(s0), [s1] "+v"(s1), [s2] "+v"(s2), [s3] "+v"(s3), [s4] "+v"(s4), [s5] "+v"(s5),
                           [s6] "+v"(s6), [s7] "+v"(s7), [s8] "+v"(s8), [s9] "+v"(s9), [s10] "+v"(s10), [s11] "+v"(s11)
                         : [w] "v"(w), [y] "v"(y));
    }
}

} // namespace

extern const RooflineLoops avx512_vnni_loops{"avx512_vnni", read, dot, uint64_t{n_sums} * 64};

} // namespace pyspec::bench

#endif
