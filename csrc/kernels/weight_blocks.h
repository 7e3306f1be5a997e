// Layouts of ggml's quantised weight blocks, as they lie in GGUF files.
#pragma once

#include "ggml.h"

#include <cstdint>

namespace pyspec {

struct BlockQ4_0 { // x = scale * (q - 8); low nibbles are values 0..15, high nibbles 16..31
    ggml_fp16_t scale;
    uint8_t q[16];
};
struct BlockQ4_1 { // x = scale * q + offset
    ggml_fp16_t scale, offset;
    uint8_t q[16];
};
struct BlockQ5_0 { // as Q4_0 with a fifth bit per value (bit i of high is that of value i) and -16
    ggml_fp16_t scale;
    uint8_t high[4];
    uint8_t q[16];
};
struct BlockQ5_1 {
    ggml_fp16_t scale, offset;
    uint8_t high[4];
    uint8_t q[16];
};
struct BlockQ8_0 { // x = scale * q
    ggml_fp16_t scale;
    int8_t q[32];
};
// 8 groups of 32: x = scale * s_g * q - offset * m_g. Bytes 32i.. of q hold groups 2i (low nibbles) and 2i + 1 (high).
// s_g and m_g are 6-bit numbers packed into 12 bytes (see packed_format.cpp).
struct BlockQ4_K {
    ggml_fp16_t scale, offset;
    uint8_t packed[12];
    uint8_t q[128];
};
// As Q4_K with a fifth bit: bit g of high[i] is that of value i of group g.
struct BlockQ5_K {
    ggml_fp16_t scale, offset;
    uint8_t packed[12];
    uint8_t high[32];
    uint8_t q[128];
};
// 16 groups of 16: x = scale * s_g * (q - 32). Each half of 128 values takes 64 bytes of low (nibbles) and 32 of high
// (pairs of bits).
struct BlockQ6_K {
    uint8_t low[128];
    uint8_t high[64];
    int8_t group_scale[16];
    ggml_fp16_t scale;
};

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22 && sizeof(BlockQ5_1) == 24);
static_assert(sizeof(BlockQ8_0) == 34 && sizeof(BlockQ4_K) == 144 && sizeof(BlockQ5_K) == 176);
static_assert(sizeof(BlockQ6_K) == 210);

} // namespace pyspec
