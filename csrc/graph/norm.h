// Root-mean-square normalisation over the first dimension: w * x / sqrt(mean(x^2) + eps). w may be null.
#pragma once

#include "graph/graph_builder.h"
#include "kernels/row_nodes.h"

namespace pyspec {

inline ggml_tensor * rms_norm(GraphBuilder & g, ggml_tensor * x, ggml_tensor * w, float eps) {
    RowPlan plan;
    plan.run      = g.run;
    plan.routines = g.kernels.rows;
    plan.eps      = eps;
    return rms_norm_node(g.ctx, g.keep(plan), x, w);
}

} // namespace pyspec
