#include "kernels/packed_format.h"

#include "kernels/weight_blocks.h"

#include <cstring>

namespace pyspec {

namespace {

constexpr size_t n_lanes = static_cast<size_t>(panel_rows);

size_t round_up(size_t n, size_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

// Bytes of quants (for 32 values of 16 rows), scales (the same) and supers (256 values of 16 rows).
struct TypeSizes {
    size_t quants;
    size_t scales;
    size_t supers;
};

TypeSizes sizes_of(ggml_type type) {
    switch (type) {
    case GGML_TYPE_Q4_0:
        return {256, 32, 0};
    case GGML_TYPE_Q4_1:
        return {256, 64, 0};
    case GGML_TYPE_Q5_0:
        return {320, 32, 0};
    case GGML_TYPE_Q5_1:
        return {320, 64, 0};
    case GGML_TYPE_Q8_0:
        return {512, 32, 0};
    case GGML_TYPE_Q4_K:
        return {256, 32, 64};
    case GGML_TYPE_Q5_K:
        return {320, 32, 64};
    case GGML_TYPE_Q6_K:
        return {384, 32, 32};
    case GGML_TYPE_F16:
    case GGML_TYPE_BF16:
        return {1024, 0, 0};
    case GGML_TYPE_F32:
        return {2048, 0, 0};
    default:
        return {0, 0, 0};
    }
}

// n bytes of one row <-> every 64th group of four bytes.
void spread(const uint8_t * bytes, size_t n, uint8_t * to, size_t lane) {
    for (size_t p = 0; p < n / 4; ++p) {
        std::memcpy(to + 64 * p + 4 * lane, bytes + 4 * p, 4);
    }
}
void gather(const uint8_t * from, size_t n, uint8_t * bytes, size_t lane) {
    for (size_t p = 0; p < n / 4; ++p) {
        std::memcpy(bytes + 4 * p, from + 64 * p + 4 * lane, 4);
    }
}

void put16(uint8_t * to, size_t lane, ggml_fp16_t value) {
    std::memcpy(to + 2 * lane, &value, 2);
}
ggml_fp16_t get16(const uint8_t * from, size_t lane) {
    ggml_fp16_t value;
    std::memcpy(&value, from + 2 * lane, 2);
    return value;
}

// Fifth bits: bit i of a word is that of value i. Packed, bit j of byte t is that of value 4j + t, so that shifting
// brings the bits of four neighbours to the same place in four bytes.
uint32_t fifth_bits_to_bytes(uint32_t word) {
    uint32_t bytes = 0;
    for (int j = 0; j < 8; ++j) {
        const uint32_t four = word >> (4 * j) & 15u;
        bytes |= ((four & 1u) | (four & 2u) << 7 | (four & 4u) << 14 | (four & 8u) << 21) << j;
    }
    return bytes;
}
uint32_t bytes_to_fifth_bits(uint32_t bytes) {
    uint32_t word = 0;
    for (int j = 0; j < 8; ++j) {
        const uint32_t bit = bytes >> j & 0x01010101u;
        word |= ((bit & 1u) | (bit >> 7 & 2u) | (bit >> 14 & 4u) | (bit >> 21 & 8u)) << (4 * j);
    }
    return word;
}

// 12 bytes hold eight 6-bit scales and eight 6-bit offsets: those of groups 0..3 are the low bits of bytes 0..3
// (scales) and 4..7 (offsets); those of groups 4..7 have their low four bits in bytes 8..11 (low nibble scale, high
// nibble offset) and their top two above the former.
void unpack_six_bits(const uint8_t * p, uint8_t * scale, uint8_t * offset) {
    for (int g = 0; g < 4; ++g) {
        scale[g]      = p[g] & 63;
        offset[g]     = p[g + 4] & 63;
        scale[g + 4]  = static_cast<uint8_t>((p[g + 8] & 15) | (p[g] >> 6) << 4);
        offset[g + 4] = static_cast<uint8_t>((p[g + 8] >> 4) | (p[g + 4] >> 6) << 4);
    }
}
void pack_six_bits(const uint8_t * scale, const uint8_t * offset, uint8_t * p) {
    for (int g = 0; g < 4; ++g) {
        p[g]     = static_cast<uint8_t>(scale[g] | (scale[g + 4] >> 4) << 6);
        p[g + 4] = static_cast<uint8_t>(offset[g] | (offset[g + 4] >> 4) << 6);
        p[g + 8] = static_cast<uint8_t>((scale[g + 4] & 15) | (offset[g + 4] & 15) << 4);
    }
}

// Places of one block (or super-block) of a panel.
struct Place {
    uint8_t * quants;
    uint8_t * scales;
    uint8_t * supers;
};

// Block types: `pack` puts one block of a row into its lane, `unpack` takes it out again.
template <typename Block, bool has_offset, bool has_high> struct Blocks32 {
    static constexpr size_t n_values = 32;
    static void pack(const Block & b, const Place & at, size_t lane) {
        put16(at.scales, lane, b.scale);
        if constexpr (has_offset) {
            put16(at.scales + 32, lane, b.offset);
        }
        spread(reinterpret_cast<const uint8_t *>(b.q), sizeof b.q, at.quants, lane);
        if constexpr (has_high) {
            uint32_t word;
            std::memcpy(&word, b.high, 4);
            word = fifth_bits_to_bytes(word);
            std::memcpy(at.quants + 256 + 4 * lane, &word, 4);
        }
    }
    static void unpack(const Place & at, size_t lane, Block & b) {
        b.scale = get16(at.scales, lane);
        if constexpr (has_offset) {
            b.offset = get16(at.scales + 32, lane);
        }
        gather(at.quants, sizeof b.q, reinterpret_cast<uint8_t *>(b.q), lane);
        if constexpr (has_high) {
            uint32_t word;
            std::memcpy(&word, at.quants + 256 + 4 * lane, 4);
            word = bytes_to_fifth_bits(word);
            std::memcpy(b.high, &word, 4);
        }
    }
};

template <typename Block, bool has_high> struct GroupsOf32 { // Q4_K, Q5_K
    static constexpr size_t n_values = 256;
    static void pack(const Block & b, const Place & at, size_t lane) {
        put16(at.supers, lane, b.scale);
        put16(at.supers + 32, lane, b.offset);
        uint8_t scale[8];
        uint8_t offset[8];
        unpack_six_bits(b.packed, scale, offset);
        for (size_t g = 0; g < 8; ++g) {
            at.scales[32 * g + lane]      = scale[g];
            at.scales[32 * g + 16 + lane] = offset[g];
        }
        spread(b.q, sizeof b.q, at.quants, lane);
        if constexpr (has_high) {
            spread(b.high, sizeof b.high, at.quants + n_lanes * sizeof b.q, lane);
        }
    }
    static void unpack(const Place & at, size_t lane, Block & b) {
        b.scale  = get16(at.supers, lane);
        b.offset = get16(at.supers + 32, lane);
        uint8_t scale[8];
        uint8_t offset[8];
        for (size_t g = 0; g < 8; ++g) {
            scale[g]  = at.scales[32 * g + lane];
            offset[g] = at.scales[32 * g + 16 + lane];
        }
        pack_six_bits(scale, offset, b.packed);
        gather(at.quants, sizeof b.q, b.q, lane);
        if constexpr (has_high) {
            gather(at.quants + n_lanes * sizeof b.q, sizeof b.high, b.high, lane);
        }
    }
};

struct GroupsOf16 { // Q6_K
    static constexpr size_t n_values = 256;
    static void pack(const BlockQ6_K & b, const Place & at, size_t lane) {
        put16(at.supers, lane, b.scale);
        for (size_t g = 0; g < 16; ++g) {
            at.scales[16 * g + lane] = static_cast<uint8_t>(b.group_scale[g]);
        }
        spread(b.low, sizeof b.low, at.quants, lane);
        spread(b.high, sizeof b.high, at.quants + n_lanes * sizeof b.low, lane);
    }
    static void unpack(const Place & at, size_t lane, BlockQ6_K & b) {
        b.scale = get16(at.supers, lane);
        for (size_t g = 0; g < 16; ++g) {
            b.group_scale[g] = static_cast<int8_t>(at.scales[16 * g + lane]);
        }
        gather(at.quants, sizeof b.low, b.low, lane);
        gather(at.quants + n_lanes * sizeof b.low, sizeof b.high, b.high, lane);
    }
};

// 32 floats of `size` bytes, whatever they mean.
template <size_t size> struct FloatBlock {
    uint8_t values[32][size];
};
template <size_t size> struct FloatValues {
    static constexpr size_t n_values = 32;
    static void pack(const FloatBlock<size> & b, const Place & at, size_t lane) {
        for (size_t i = 0; i < n_values; ++i) {
            std::memcpy(at.quants + (n_lanes * i + lane) * size, b.values[i], size);
        }
    }
    static void unpack(const Place & at, size_t lane, FloatBlock<size> & b) {
        for (size_t i = 0; i < n_values; ++i) {
            std::memcpy(b.values[i], at.quants + (n_lanes * i + lane) * size, size);
        }
    }
};

Place place_of(ggml_type type, const PanelLayout & layout, uint8_t * panel, size_t first_block) {
    const TypeSizes sizes = sizes_of(type);
    return {panel + layout.quants_at + first_block * sizes.quants,
            panel + layout.scales_at + first_block * sizes.scales,
            panel + layout.supers_at + first_block / 8 * sizes.supers};
}

template <typename Format, typename Block>
void pack_as(ggml_type type, const PanelLayout & layout, const void * rows, int64_t n_rows, uint8_t * panel) {
    constexpr size_t step = Format::n_values / 32;
    const size_t n        = layout.n_blocks / step;
    for (size_t i = 0; i < n; ++i) {
        const Place at = place_of(type, layout, panel, i * step);
        for (size_t lane = 0; lane < static_cast<size_t>(n_rows); ++lane) {
            Format::pack(static_cast<const Block *>(rows)[lane * n + i], at, lane);
        }
    }
}

template <typename Format, typename Block>
void unpack_as(ggml_type type, const PanelLayout & layout, const uint8_t * panel, size_t lane, size_t block,
               void * out) {
    const Place at = place_of(type, layout, const_cast<uint8_t *>(panel), block * Format::n_values / 32); // only read
    Format::unpack(at, lane, *static_cast<Block *>(out));
}

} // namespace

bool is_packable(ggml_type type, int64_t n_in) {
    return sizes_of(type).quants != 0 && n_in % block_values(type) == 0;
}

PanelLayout panel_layout(ggml_type type, int64_t n_in) {
    const TypeSizes sizes = sizes_of(type);
    PanelLayout layout;
    layout.n_blocks    = static_cast<size_t>(n_in) / 32;
    layout.quant_bytes = sizes.quants;
    layout.scale_bytes = sizes.scales;
    layout.super_bytes = sizes.supers;
    layout.scales_at   = layout.n_blocks * sizes.quants;
    layout.supers_at   = layout.scales_at + layout.n_blocks * sizes.scales;
    layout.bytes       = round_up(layout.supers_at + layout.n_blocks / 8 * sizes.supers, 64);
    return layout;
}

void pack_panel(ggml_type type, int64_t n_in, const void * rows, int64_t n_rows, uint8_t * panel) {
    const PanelLayout layout = panel_layout(type, n_in);
    if (n_rows < panel_rows) {
        std::memset(panel, 0, layout.bytes);
    }
    switch (type) {
    case GGML_TYPE_Q4_0:
        return pack_as<Blocks32<BlockQ4_0, false, false>, BlockQ4_0>(type, layout, rows, n_rows, panel);
    case GGML_TYPE_Q4_1:
        return pack_as<Blocks32<BlockQ4_1, true, false>, BlockQ4_1>(type, layout, rows, n_rows, panel);
    case GGML_TYPE_Q5_0:
        return pack_as<Blocks32<BlockQ5_0, false, true>, BlockQ5_0>(type, layout, rows, n_rows, panel);
    case GGML_TYPE_Q5_1:
        return pack_as<Blocks32<BlockQ5_1, true, true>, BlockQ5_1>(type, layout, rows, n_rows, panel);
    case GGML_TYPE_Q8_0:
        return pack_as<Blocks32<BlockQ8_0, false, false>, BlockQ8_0>(type, layout, rows, n_rows, panel);
    case GGML_TYPE_Q4_K:
        return pack_as<GroupsOf32<BlockQ4_K, false>, BlockQ4_K>(type, layout, rows, n_rows, panel);
    case GGML_TYPE_Q5_K:
        return pack_as<GroupsOf32<BlockQ5_K, true>, BlockQ5_K>(type, layout, rows, n_rows, panel);
    case GGML_TYPE_F16:
    case GGML_TYPE_BF16:
        return pack_as<FloatValues<2>, FloatBlock<2>>(type, layout, rows, n_rows, panel);
    case GGML_TYPE_F32:
        return pack_as<FloatValues<4>, FloatBlock<4>>(type, layout, rows, n_rows, panel);
    default:
        return pack_as<GroupsOf16, BlockQ6_K>(type, layout, rows, n_rows, panel);
    }
}

void unpack_block(ggml_type type, const PanelLayout & layout, const uint8_t * panel, int64_t row, int64_t block,
                  void * out) {
    const size_t lane = static_cast<size_t>(row);
    const size_t i    = static_cast<size_t>(block);
    switch (type) {
    case GGML_TYPE_Q4_0:
        return unpack_as<Blocks32<BlockQ4_0, false, false>, BlockQ4_0>(type, layout, panel, lane, i, out);
    case GGML_TYPE_Q4_1:
        return unpack_as<Blocks32<BlockQ4_1, true, false>, BlockQ4_1>(type, layout, panel, lane, i, out);
    case GGML_TYPE_Q5_0:
        return unpack_as<Blocks32<BlockQ5_0, false, true>, BlockQ5_0>(type, layout, panel, lane, i, out);
    case GGML_TYPE_Q5_1:
        return unpack_as<Blocks32<BlockQ5_1, true, true>, BlockQ5_1>(type, layout, panel, lane, i, out);
    case GGML_TYPE_Q8_0:
        return unpack_as<Blocks32<BlockQ8_0, false, false>, BlockQ8_0>(type, layout, panel, lane, i, out);
    case GGML_TYPE_Q4_K:
        return unpack_as<GroupsOf32<BlockQ4_K, false>, BlockQ4_K>(type, layout, panel, lane, i, out);
    case GGML_TYPE_Q5_K:
        return unpack_as<GroupsOf32<BlockQ5_K, true>, BlockQ5_K>(type, layout, panel, lane, i, out);
    case GGML_TYPE_F16:
    case GGML_TYPE_BF16:
        return unpack_as<FloatValues<2>, FloatBlock<2>>(type, layout, panel, lane, i, out);
    case GGML_TYPE_F32:
        return unpack_as<FloatValues<4>, FloatBlock<4>>(type, layout, panel, lane, i, out);
    default:
        return unpack_as<GroupsOf16, BlockQ6_K>(type, layout, panel, lane, i, out);
    }
}

} // namespace pyspec
