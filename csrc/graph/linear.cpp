#include "graph/linear.h"

#include "kernels/product.h"

#include <algorithm>

namespace pyspec {

namespace {

ggml_tensor * product(GraphBuilder & g, const ProductWeight * weights, int n, ggml_tensor * x, ggml_tensor * addend) {
    const ProductPlan * plan = g.keep(product_plan(g.run, weights, n, addend != nullptr));
    return product_node(g.ctx, plan, weights, x, addend, g.scratch(product_scratch_bytes(weights, n, x->ne[1])));
}

} // namespace

ggml_tensor * linear(GraphBuilder & g, const Linear & w, ggml_tensor * x, ggml_tensor * addend) {
    if (w.scale == nullptr) {
        const ProductWeight weight{w.weight, w.bias};
        return product(g, &weight, 1, x, addend);
    }
    const ProductWeight weight{w.weight, nullptr};
    ggml_tensor * y = ggml_mul(g.ctx, product(g, &weight, 1, x, nullptr), w.scale);
    if (w.bias != nullptr) {
        y = ggml_add(g.ctx, y, w.bias);
    }
    return addend == nullptr ? y : ggml_add(g.ctx, y, addend);
}

ggml_tensor * fused_linear(GraphBuilder & g, std::initializer_list<const Linear *> w, ggml_tensor * x) {
    ProductWeight weights[max_product_weights];
    int n            = 0;
    const bool whole = std::all_of(w.begin(), w.end(), [](const Linear * one) { return one->scale == nullptr; });
    if (whole && w.size() <= max_product_weights) {
        for (const Linear * one : w) {
            weights[n++] = {one->weight, one->bias};
        }
        return product(g, weights, n, x, nullptr);
    }
    ggml_tensor * all = nullptr;
    for (const Linear * one : w) {
        ggml_tensor * y = linear(g, *one, x);
        all             = all == nullptr ? y : ggml_concat(g.ctx, all, y, 0);
    }
    return all;
}

ggml_tensor * embedding(GraphBuilder & g, ggml_tensor * table, ggml_tensor * ids) {
    return rows_node(g.ctx, g.run, table, ids);
}

} // namespace pyspec
