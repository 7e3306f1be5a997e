// Graph nodes on packed weights: products with activation rows, for any number of rows, in one order of operations, and
// lookups of single rows.
//
// Weights that share an input make one node (Q, K and V; gate and up). Activations are quantised once per row: by a
// node of their own, or, when they are few, by every thread for itself, which costs less than waiting for another node.
// The bits are the same. A result element is computed by the same sequence of operations whatever the number of rows
// and threads (panel_tile.h); threads split the output rows. So it is bit-equal for 1 and for 512 rows.
#pragma once

#include "ggml.h"

#include <cstdint>

namespace pyspec {

// One of the matrices of a product.
struct ProductWeight {
    ggml_tensor * weight; // {in, out}, packed
    ggml_tensor * bias;   // f32 {out} or null: added to the result
};

constexpr int max_product_weights = 3;

// weights[i] {in, out_i}, all packed; x f32 {in, rows}, rows contiguous; addend f32 {sum of out_i, rows} or null, added
// last.
// -> f32 {sum of out_i, rows}: the outputs of weights[0], then those of weights[1], ...
ggml_tensor * packed_product(ggml_context * ctx, const ProductWeight * weights, int n_weights, ggml_tensor * x,
                             ggml_tensor * addend);

// ids I32 {n} -> f32 {in, n}: rows of a packed table, with the bits that its GGUF form gives.
ggml_tensor * packed_rows(ggml_context * ctx, ggml_tensor * table, ggml_tensor * ids);

} // namespace pyspec
