// The inner routine of products: one panel of packed weights (16 rows) against a few activation rows.
//
// Included by files that are compiled for other instruction sets than the rest: nothing here may be an inline function,
// because the linker keeps one copy of those for everybody.
//
// Every routine computes, for row r and column c, in this order whatever the number of columns:
//
//   sum = 0
//   for each block of 32 values:
//     Q4_0, Q5_0, Q8_0:        i = dot(q, y) - z * sum(y)             sum = fma(float(i), scale * scale_y, sum)
//     Q4_1, Q5_1, Q4_K, Q5_K:  i = dot(q, y)                          sum = fma(float(i), scale * scale_y, sum)
//                                                                     sum = fma(offset, scale_y * sum(y), sum)
//     Q6_K, each half of 16:   i = dot(q, y) - 32 * sum(y)            sum = fma(float(i), scale * scale_y, sum)
//
// with exact integers i and, for K-quants, scale = super_scale * float(group_scale), offset = -super_offset *
// float(group_offset). All sets but `portable` (which has no fma) therefore give the same bits.
#pragma once

#include "kernels/activation_block.h"
#include "kernels/attention_partition.h"

#include "ggml.h"

#include <cstddef>
#include <cstdint>

namespace pyspec {

constexpr int max_tile_columns = 16;

struct PanelTask {
    const uint8_t * quants; // the regions of the panel, see packed_format.h
    const uint8_t * scales;
    const uint8_t * supers;
    size_t n_blocks;           // of 32 values along a row
    const ActivationBlock * x; // column 0
    size_t x_stride;           // blocks from one column to the next
    int n_columns;             // 1 .. the set's max_columns
    float * out;               // [n_columns][16]
};

using PanelTile = void (*)(const PanelTask & task);

// Routines of one instruction set; tile(type) is null for types that cannot be packed.
struct TileSet {
    const char * name;
    int max_columns;
    PanelTile (*tile)(ggml_type type);
    const AttentionRoutines * attention;
    int64_t node_products; // multiply-accumulates of one thread in less than 0.1 s
};

extern const TileSet avx512_vnni_tiles; // only where the compiler knows x86-64
extern const TileSet avx2_vnni_tiles;
extern const TileSet avx2_tiles;
extern const TileSet portable_tiles;

} // namespace pyspec
