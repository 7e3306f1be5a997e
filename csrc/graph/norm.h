// Root-mean-square normalisation over the first dimension: w * x / sqrt(mean(x^2) + eps). w may be null.
#pragma once

#include "graph/graph_builder.h"

namespace pyspec {

inline ggml_tensor * rms_norm(GraphBuilder & g, ggml_tensor * x, ggml_tensor * w, float eps) {
    ggml_tensor * y = ggml_rms_norm(g.ctx, x, eps);
    return w == nullptr ? y : ggml_mul(g.ctx, y, w);
}

} // namespace pyspec
