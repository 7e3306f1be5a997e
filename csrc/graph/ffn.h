// Gated feed-forward block: down(act(gate x) * up x).
#pragma once

#include "graph/linear.h"

namespace pyspec {

enum class GateActivation { silu, gelu };

struct FfnWeights {
    Linear gate; // no weight: `up` holds gate rows first, then up rows
    Linear up;
    Linear down;
};

// addend {n_embd, n} or null is added to the result.
inline ggml_tensor * gated_ffn(GraphBuilder & g, const FfnWeights & w, ggml_tensor * x, GateActivation activation,
                               ggml_tensor * addend = nullptr) {
    const bool silu       = activation == GateActivation::silu;
    ggml_tensor * gate_up = w.gate.weight == nullptr ? linear(g, w.up, x) : fused_linear(g, {&w.gate, &w.up}, x);
    ggml_tensor * act;
    if (gate_up != nullptr) {
        act = silu ? ggml_swiglu(g.ctx, gate_up) : ggml_geglu(g.ctx, gate_up);
    } else {
        ggml_tensor * up   = linear(g, w.up, x);
        ggml_tensor * gate = linear(g, w.gate, x);
        act                = silu ? ggml_swiglu_split(g.ctx, gate, up) : ggml_geglu_split(g.ctx, gate, up);
    }
    return linear(g, w.down, act, addend);
}

} // namespace pyspec
