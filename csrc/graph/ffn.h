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

inline ggml_tensor * gated_ffn(GraphBuilder & g, const FfnWeights & w, ggml_tensor * x, GateActivation activation) {
    ggml_tensor * up = linear(g, w.up, x);
    ggml_tensor * act;
    if (w.gate.weight == nullptr) {
        act = activation == GateActivation::silu ? ggml_swiglu(g.ctx, up) : ggml_geglu(g.ctx, up);
    } else {
        ggml_tensor * gate = linear(g, w.gate, x);
        act =
            activation == GateActivation::silu ? ggml_swiglu_split(g.ctx, gate, up) : ggml_geglu_split(g.ctx, gate, up);
    }
    return linear(g, w.down, act);
}

} // namespace pyspec
