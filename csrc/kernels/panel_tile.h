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
// float(group_offset). Weights that are floats meet activations that are floats; a block has a sum of its own, which
// keeps the error of long rows small:
//
//     F16, BF16:               part = 0; part = fma(w[j], y[j], part), j ascending;  sum = sum + part
//     F32:                     the same for each 8 values, and the sum is compensated (float_tile.inc)
//
// with f16 and bf16 weights converted exactly. All sets but `portable` (which has no fma) therefore give the same bits;
// only which of the many values that are no numbers a sum ends in is left open.
#pragma once

#include "kernels/activation_block.h"
#include "kernels/attention_partition.h"
#include "kernels/row_operations.h"

#include "ggml.h"

#include <cstddef>
#include <cstdint>

namespace pyspec {

constexpr int max_tile_columns = 16;

struct PanelTask {
    const uint8_t * quants; // the regions of the panel, see packed_format.h
    const uint8_t * scales;
    const uint8_t * supers;
    size_t n_blocks; // of 32 values along a row
    const void * x;  // column 0: n_blocks ActivationBlocks, or 32 * n_blocks f32 where the weights are floats
    size_t x_stride; // bytes from one column to the next
    int n_columns;   // 1 .. the max_columns of the set or of its float tiles
    float * out;     // [n_columns][16]
    // `out` holds the sums over the blocks so far: a long row may be walked in pieces, with quants, scales, supers and
    // x at the next piece each time, and gives the same bits as in one go. Pieces of K-quants are multiples of 8
    // blocks. Only for quantised types.
    bool resume = false;
};

using PanelTile = void (*)(const PanelTask & task);

// Routines for weights that are floats; tile(type) is null for other types.
struct FloatTiles {
    int max_columns;
    PanelTile (*tile)(ggml_type type);
};

// Routines of one instruction set; tile(type) is null for types that cannot be packed and for floats.
struct TileSet {
    const char * name;
    int max_columns; // of the routines for quantised weights
    PanelTile (*tile)(ggml_type type);
    const FloatTiles * floats;
    const AttentionRoutines * attention;
    const RowRoutines * rows;
};

extern const TileSet avx512_vnni_tiles; // only where the compiler knows x86-64
extern const TileSet avx2_vnni_tiles;
extern const TileSet avx2_tiles;
extern const TileSet portable_tiles;

} // namespace pyspec
