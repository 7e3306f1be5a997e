// Rotary position embedding. Angles are computed once for each graph, not once for each layer.
#pragma once

#include "graph/graph_builder.h"
#include "kernels/row_nodes.h"

namespace pyspec {

// x {head_dim, n_head, n_tokens} -> the same shape
inline ggml_tensor * rope(GraphBuilder & g, ggml_tensor * x, const RopeParams & p) {
    RowPlan plan;
    plan.run      = g.run;
    plan.n_rot    = p.n_rot;
    plan.adjacent = p.pairing == RopePairing::adjacent;
    return rotate_node(g.ctx, g.keep(plan), x, g.rope_table(p));
}

} // namespace pyspec
