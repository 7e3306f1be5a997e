// Mixture of experts: router, choice of experts and their weighted sum.
#pragma once

#include "graph/linear.h"

namespace pyspec {

struct ExpertWeights {
    Linear router;                // {n_embd, n_expert}
    ggml_tensor * gate = nullptr; // {n_embd, n_ff, n_expert}
    ggml_tensor * up   = nullptr;
    ggml_tensor * down = nullptr; // {n_ff, n_embd, n_expert}
    int32_t n_expert   = 0;
    int32_t n_used     = 0;
    bool renormalise   = true; // weights of the chosen experts sum to 1
};

// x {n_embd, n} -> {n_embd, n}: probabilities = softmax(router x); the n_used best experts (lowest id on ties) compute
// down(silu(gate x) * up x); their outputs are summed by router rank, weighted by their probability.
ggml_tensor * experts(GraphBuilder & g, const ExpertWeights & w, ggml_tensor * x);

} // namespace pyspec
