// Gated feed-forward block: down(act(gate x) * up x).
#pragma once

#include "graph/linear.h"
#include "kernels/row_nodes.h"

namespace pyspec {

struct FfnWeights {
    Linear gate; // no weight: `up` holds gate rows first, then up rows
    Linear up;
    Linear down;
};

// act(gate) * up of gate_up {2 n_ff, n}: gate first -> {n_ff, n}
inline ggml_tensor * gate(GraphBuilder & g, ggml_tensor * gate_up, GateActivation activation) {
    RowPlan plan;
    plan.run        = g.run;
    plan.routines   = g.kernels.rows;
    plan.activation = activation;
    return gate_node(g.ctx, g.keep(plan), gate_up);
}

// addend {n_embd, n} or null is added to the result.
inline ggml_tensor * gated_ffn(GraphBuilder & g, const FfnWeights & w, ggml_tensor * x, GateActivation activation,
                               ggml_tensor * addend = nullptr) {
    ggml_tensor * gate_up = w.gate.weight == nullptr ? linear(g, w.up, x) : fused_linear(g, {&w.gate, &w.up}, x);
    return linear(g, w.down, gate(g, gate_up, activation), addend);
}

} // namespace pyspec
