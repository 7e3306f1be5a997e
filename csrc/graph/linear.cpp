#include "graph/linear.h"

#include "kernels/packed_matrix.h"
#include "kernels/product.h"

namespace pyspec {

ggml_tensor * linear(GraphBuilder & g, const Linear & w, ggml_tensor * x, ggml_tensor * addend) {
    const bool packed = packed_of(w.weight) != nullptr;
    if (packed && w.scale == nullptr) {
        const ProductWeight weight{w.weight, w.bias};
        return packed_product(g.ctx, &weight, 1, x, addend);
    }
    ggml_tensor * y;
    if (packed) {
        const ProductWeight weight{w.weight, nullptr};
        y = packed_product(g.ctx, &weight, 1, x, nullptr);
    } else {
        y = ggml_mul_mat(g.ctx, w.weight, x);
    }
    if (w.scale != nullptr) {
        y = ggml_mul(g.ctx, y, w.scale);
    }
    if (w.bias != nullptr) {
        y = ggml_add(g.ctx, y, w.bias);
    }
    return addend == nullptr ? y : ggml_add(g.ctx, y, addend);
}

ggml_tensor * fused_linear(GraphBuilder & g, std::initializer_list<const Linear *> w, ggml_tensor * x) {
    if (w.size() > max_product_weights) {
        return nullptr;
    }
    ProductWeight weights[max_product_weights];
    int n = 0;
    for (const Linear * one : w) {
        if (packed_of(one->weight) == nullptr || one->scale != nullptr) {
            return nullptr;
        }
        weights[n++] = {one->weight, one->bias};
    }
    return packed_product(g.ctx, weights, n, x, nullptr);
}

ggml_tensor * embedding(GraphBuilder & g, ggml_tensor * table, ggml_tensor * ids) {
    return packed_of(table) != nullptr ? packed_rows(g.ctx, table, ids) : ggml_get_rows(g.ctx, table, ids);
}

} // namespace pyspec
