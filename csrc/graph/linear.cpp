#include "graph/linear.h"

namespace pyspec {

ggml_tensor * linear(GraphBuilder & g, const Linear & w, ggml_tensor * x) {
    ggml_tensor * y = ggml_mul_mat(g.ctx, w.weight, x);
    if (w.scale != nullptr) {
        y = ggml_mul(g.ctx, y, w.scale);
    }
    if (w.bias != nullptr) {
        y = ggml_add(g.ctx, y, w.bias);
    }
    return y;
}

ggml_tensor * embedding(GraphBuilder & g, ggml_tensor * table, ggml_tensor * ids) {
    return ggml_get_rows(g.ctx, table, ids);
}

} // namespace pyspec
