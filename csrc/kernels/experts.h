// Mixture-of-experts products as graph nodes.
//
// Each token is sent to n_used experts: a token and one of its ranks make a pair. Pairs are sorted by expert, then by
// token, so that the columns of an expert lie side by side; everything between the router and the sum is computed in
// that order, and the sum goes by rank. A pair's result does not depend on which other pairs there are.
#pragma once

#include "kernels/kernel_run.h"

#include "ggml.h"

#include <cstddef>
#include <cstdint>

namespace pyspec {

struct ExpertPlan {
    KernelRun * run    = nullptr;
    int32_t n_expert   = 0;
    int32_t n_used     = 0;
    int32_t n_weights  = 0;
    bool rows_of_pairs = false; // x has a row for each pair, in the sorted order; else one for each token
};

// ids I32 {n_used, n}: the experts of each token by rank. -> I32: the order that the other nodes take.
ggml_tensor * expert_order_node(ggml_context * ctx, const ExpertPlan * plan, ggml_tensor * ids);

// Bytes of scratch for a product of n tokens.
size_t expert_scratch_bytes(const ExpertPlan & plan, const ggml_tensor * weight, int64_t n);

// weights[i] {in, out_i, n_expert}, one or two of one column form; x f32 {in, rows}.
// -> f32 {sum of out_i, pairs}, sorted.
ggml_tensor * expert_product_node(ggml_context * ctx, const ExpertPlan * plan, ggml_tensor * const * weights,
                                  ggml_tensor * x, ggml_tensor * order, ggml_tensor * scratch);

// y f32 {n_embd, pairs}, sorted; weights f32 {n_used, n} -> f32 {n_embd, n}: ((w0 y0 + w1 y1) + w2 y2) + ...
ggml_tensor * expert_sum_node(ggml_context * ctx, const ExpertPlan * plan, ggml_tensor * y, ggml_tensor * order,
                              ggml_tensor * weights);

} // namespace pyspec
