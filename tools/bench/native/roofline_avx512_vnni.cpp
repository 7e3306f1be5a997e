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

// Sums enough to hide the instruction's latency (5 cycles on up to two ports), with room for the operands. They begin
// differently, and the operands change as far as the compiler knows: it may merge or hoist nothing.
constexpr int n_sums = 12;

uint64_t dot(uint64_t rounds) {
    __m512i sum[n_sums];
    for (int j = 0; j < n_sums; ++j) {
        sum[j] = _mm512_set1_epi32(j);
    }
    __m512i w = _mm512_set1_epi8(3);
    __m512i y = _mm512_set1_epi8(-5);
    for (uint64_t i = 0; i < rounds; ++i) {
        __asm__ volatile("" : "+v"(w), "+v"(y));
        for (int j = 0; j < n_sums; ++j) {
            sum[j] = _mm512_dpbusd_epi32(sum[j], w, y);
        }
    }
    for (int j = 1; j < n_sums; ++j) {
        sum[0] = _mm512_add_epi32(sum[0], sum[j]);
    }
    return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm512_castsi512_si128(sum[0])));
}

} // namespace

extern const RooflineLoops avx512_vnni_loops{"avx512_vnni", read, dot, uint64_t{n_sums} * 64};

} // namespace pyspec::bench

#endif
