#include "graph/linear.h"

namespace pyspec {

namespace {

// The input quantised for a kind of weights, shared by all products of this graph that have the same input.
ggml_tensor * quantised(GraphBuilder & g, ggml_tensor * x, ActivationKind kind) {
    for (const GraphBuilder::QuantisedRows & known : g.quantised_rows) {
        if (known.x == x && known.kind == kind) {
            return known.rows;
        }
    }
    g.quantised_rows.push_back({x, kind, quantise_rows(g.ctx, x, kind)});
    return g.quantised_rows.back().rows;
}

} // namespace

ggml_tensor * linear(GraphBuilder & g, const Linear & w, ggml_tensor * x) {
    const ActivationKind kind = activation_kind(w.weight);
    ggml_tensor * y = kind == ActivationKind::none ? ggml_mul_mat(g.ctx, w.weight, x)
                                                   : quantised_product(g.ctx, w.weight, quantised(g, x, kind));
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
