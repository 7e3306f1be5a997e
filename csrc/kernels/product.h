// Products of weight matrices with activation rows as graph nodes, and lookups of single rows.
//
// Matrices that share an input make one node (Q, K and V; gate and up): the rows are converted once to each form that
// the matrices take, then the threads take panels of output rows, never parts of a sum. So a result is bit-equal for 1
// and for 512 rows, for 1 and N threads (weight_matrix.h).
#pragma once

#include "kernels/kernel_run.h"

#include "ggml.h"

#include <cstddef>
#include <cstdint>

namespace pyspec {

constexpr int max_product_weights = 3;

// What a product node knows besides its sources. Outlives the graph.
struct ProductPlan {
    KernelRun * run = nullptr;
    int n_weights   = 0;
    bool biased[max_product_weights]{};
    bool addend = false;
};

// One of the matrices of a product.
struct ProductWeight {
    ggml_tensor * weight; // {in, out}
    ggml_tensor * bias;   // f32 {out} or null: added to the result
};

// The node's plan, to be kept by the caller.
ProductPlan product_plan(KernelRun * run, const ProductWeight * weights, int n_weights, bool addend);
// Bytes of scratch that the node needs for n columns.
size_t product_scratch_bytes(const ProductWeight * weights, int n_weights, int64_t n);

// weights[i] {in, out_i}; x f32 {in, rows}, rows contiguous; addend f32 {sum of out_i, rows} or
// null, added last; scratch I8 {product_scratch_bytes} or more.
// -> f32 {sum of out_i, rows}: the outputs of weights[0], then those of weights[1], ...
ggml_tensor * product_node(ggml_context * ctx, const ProductPlan * plan, const ProductWeight * weights, ggml_tensor * x,
                           ggml_tensor * addend, ggml_tensor * scratch);

// ids I32 {n} -> f32 {in, n}: rows of a table, packed or not, with the bits that its GGUF form gives.
ggml_tensor * rows_node(ggml_context * ctx, KernelRun * run, ggml_tensor * table, ggml_tensor * ids);

} // namespace pyspec
