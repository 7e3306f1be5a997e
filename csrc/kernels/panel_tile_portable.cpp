// Plain C++ for processors without the vector sets above: the same sums, with a product and an addition in place of
// each fused one.
#include "kernels/packed_format.h"
#include "kernels/panel_tile.h"

#include "ggml.h"

namespace pyspec {

namespace {

constexpr int n_lanes = static_cast<int>(panel_rows);

float half(const uint8_t * p, int lane) {
    ggml_fp16_t value;
    __builtin_memcpy(&value, p + 2 * lane, 2);
    return ggml_fp16_to_fp32(value);
}

// One block of 16 rows: q[j][row][i] is value 4j + i.
struct Unpacked {
    uint8_t q[8][n_lanes][4];
    float scale[2][n_lanes];
    float offset[n_lanes];
};

void nibbles(const uint8_t * bytes, int n_vectors, bool high, uint8_t (*q)[n_lanes][4]) {
    uint8_t * to = &q[0][0][0];
    for (int i = 0; i < 64 * n_vectors; ++i) {
        to[i] = high ? bytes[i] >> 4 : bytes[i] & 15;
    }
}
// Adds `mask` << place of the bits at `shift` of n_vectors vectors.
void add_bits(const uint8_t * bytes, int n_vectors, int shift, int mask, int place, uint8_t (*q)[n_lanes][4]) {
    uint8_t * to = &q[0][0][0];
    for (int i = 0; i < 64 * n_vectors; ++i) {
        to[i] = static_cast<uint8_t>(to[i] | (bytes[i] >> shift & mask) << place);
    }
}

template <int zero, bool has_offset, bool has_high> struct Blocks32 {
    static constexpr int zero_point = zero;
    static constexpr int n_scales   = 1;
    static constexpr bool offsets   = has_offset;
    static void unpack(const PanelTask & t, size_t b, Unpacked & u) {
        const uint8_t * bytes = t.quants + b * (has_high ? 320 : 256);
        nibbles(bytes, 4, false, u.q);
        nibbles(bytes, 4, true, u.q + 4);
        if constexpr (has_high) {
            for (int j = 0; j < 8; ++j) {
                add_bits(bytes + 256, 1, j, 1, 4, u.q + j);
            }
        }
        const uint8_t * s = t.scales + b * (has_offset ? 64 : 32);
        for (int r = 0; r < n_lanes; ++r) {
            u.scale[0][r] = half(s, r);
            u.offset[r]   = has_offset ? half(s + 32, r) : 0.0f;
        }
    }
};
struct Q8_0 {
    static constexpr int zero_point = 128;
    static constexpr int n_scales   = 1;
    static constexpr bool offsets   = false;
    static void unpack(const PanelTask & t, size_t b, Unpacked & u) {
        for (int i = 0; i < 512; ++i) {
            (&u.q[0][0][0])[i] = t.quants[b * 512 + static_cast<size_t>(i)] ^ 0x80;
        }
        for (int r = 0; r < n_lanes; ++r) {
            u.scale[0][r] = half(t.scales + b * 32, r);
        }
    }
};
template <bool has_high> struct GroupsOf32 {
    static constexpr int zero_point = 0;
    static constexpr int n_scales   = 1;
    static constexpr bool offsets   = true;
    static void unpack(const PanelTask & t, size_t b, Unpacked & u) {
        const size_t super    = b / 8;
        const int group       = static_cast<int>(b % 8);
        const uint8_t * whole = t.quants + super * (has_high ? 2560 : 2048);
        nibbles(whole + (group / 2) * 512, 8, group % 2 == 1, u.q);
        if constexpr (has_high) {
            add_bits(whole + 2048, 8, group, 1, 4, u.q);
        }
        for (int r = 0; r < n_lanes; ++r) {
            u.scale[0][r] =
                half(t.supers + super * 64, r) * static_cast<float>(t.scales[b * 32 + static_cast<size_t>(r)]);
            u.offset[r] = -(half(t.supers + super * 64 + 32, r) *
                            static_cast<float>(t.scales[b * 32 + 16 + static_cast<size_t>(r)]));
        }
    }
};
struct Q6_K {
    static constexpr int zero_point = 32;
    static constexpr int n_scales   = 2;
    static constexpr bool offsets   = false;
    static void unpack(const PanelTask & t, size_t b, Unpacked & u) {
        const size_t super    = b / 8;
        const size_t half_no  = b % 8 / 4;
        const int quarter     = static_cast<int>(b % 4);
        const uint8_t * whole = t.quants + super * 3072;
        nibbles(whole + half_no * 1024 + static_cast<size_t>(quarter % 2) * 512, 8, quarter >= 2, u.q);
        add_bits(whole + 2048 + half_no * 512, 8, 2 * quarter, 3, 4, u.q);
        for (int h = 0; h < 2; ++h) {
            for (int r = 0; r < n_lanes; ++r) {
                const uint8_t scale = t.scales[b * 32 + static_cast<size_t>(16 * h + r)];
                u.scale[h][r]       = half(t.supers + super * 32, r) * static_cast<float>(static_cast<int8_t>(scale));
            }
        }
    }
};

template <typename Type> void tile(const PanelTask & t) {
    constexpr int per_scale = 8 / Type::n_scales;
    const char * x          = static_cast<const char *>(t.x);
    for (int i = 0; i < n_lanes * t.n_columns && !t.resume; ++i) {
        t.out[i] = 0.0f;
    }
    Unpacked u;
    for (size_t b = 0; b < t.n_blocks; ++b) {
        Type::unpack(t, b, u);
        for (int c = 0; c < t.n_columns; ++c) {
            const auto & y = reinterpret_cast<const ActivationBlock *>(x + static_cast<size_t>(c) * t.x_stride)[b];
            float * sum    = t.out + n_lanes * c;
            for (int s = 0; s < Type::n_scales; ++s) {
                const int32_t of_y = Type::n_scales == 2 ? y.half_sum[s] : y.half_sum[0] + y.half_sum[1];
                int32_t dot[n_lanes];
                for (int r = 0; r < n_lanes; ++r) {
                    dot[r] = -Type::zero_point * of_y;
                }
                for (int j = s * per_scale; j < (s + 1) * per_scale; ++j) {
                    for (int r = 0; r < n_lanes; ++r) {
                        for (int i = 0; i < 4; ++i) {
                            dot[r] += u.q[j][r][i] * y.q[4 * j + i];
                        }
                    }
                }
                for (int r = 0; r < n_lanes; ++r) {
                    sum[r] += static_cast<float>(dot[r]) * (u.scale[s][r] * y.scale);
                }
            }
            if constexpr (Type::offsets) {
                for (int r = 0; r < n_lanes; ++r) {
                    sum[r] += u.offset[r] * y.sum;
                }
            }
        }
    }
}

#include "kernels/panel_tile_types.inc"

} // namespace

namespace portable {
extern const FloatTiles float_tiles;
extern const AttentionRoutines attention_routines;
extern const RowRoutines row_routines;
} // namespace portable
extern const TileSet portable_tiles{
    "portable", 8, tile_of, &portable::float_tiles, &portable::attention_routines, &portable::row_routines};

} // namespace pyspec
