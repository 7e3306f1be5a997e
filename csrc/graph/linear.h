// Products with weight matrices. Together with experts and attention the only place that may call a ggml product: on
// the CPU a row of the result must not depend on how many rows are computed together (README, "What is promised").
#pragma once

#include "graph/graph_builder.h"

#include <initializer_list>

namespace pyspec {

struct Linear {
    ggml_tensor * weight = nullptr; // {in, out}
    ggml_tensor * bias   = nullptr; // {out} or null
    ggml_tensor * scale  = nullptr; // {1} or null, multiplies the product
};

// x {in, n} -> {out, n}. addend {out, n} or null is added to the result (a residual connection).
ggml_tensor * linear(GraphBuilder & g, const Linear & w, ggml_tensor * x, ggml_tensor * addend = nullptr);

// Products with the same input -> {sum of the outs, n}, results in the order given. One node, unless
// a weight has a scale.
ggml_tensor * fused_linear(GraphBuilder & g, std::initializer_list<const Linear *> w, ggml_tensor * x);

// Rows of a table: ids I32 {n} -> f32 {n_embd, n}.
ggml_tensor * embedding(GraphBuilder & g, ggml_tensor * table, ggml_tensor * ids);

} // namespace pyspec
