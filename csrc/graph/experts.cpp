#include "graph/experts.h"

#include "kernels/top_k.h"

#include <cmath>

namespace pyspec {

ggml_tensor * experts(GraphBuilder & g, const ExpertWeights & w, ggml_tensor * x) {
    const int64_t n_embd = x->ne[0];
    const int64_t n      = x->ne[1];

    ggml_tensor * scores        = ggml_mul_mat(g.ctx, w.router, x);
    ggml_tensor * probabilities = ggml_soft_max(g.ctx, scores);          // {n_expert, n}
    ggml_tensor * ids           = top_k(g.ctx, probabilities, w.n_used); // I32 {n_used, n}

    ggml_tensor * weights =
        ggml_get_rows(g.ctx, ggml_reshape_3d(g.ctx, probabilities, 1, w.n_expert, n), ids); // {1, n_used, n}
    if (w.renormalise) {
        weights           = ggml_reshape_2d(g.ctx, weights, w.n_used, n);
        ggml_tensor * sum = ggml_sum_rows(g.ctx, weights);
        sum               = ggml_clamp(g.ctx, sum, 6.103515625e-5f, INFINITY); // the smallest normal f16
        weights           = ggml_div(g.ctx, weights, sum);
        weights           = ggml_reshape_3d(g.ctx, weights, 1, w.n_used, n);
    }

    x                  = ggml_reshape_3d(g.ctx, x, n_embd, 1, n);
    ggml_tensor * up   = ggml_mul_mat_id(g.ctx, w.up, x, ids); // {n_ff, n_used, n}
    ggml_tensor * gate = ggml_mul_mat_id(g.ctx, w.gate, x, ids);
    ggml_tensor * act  = ggml_swiglu_split(g.ctx, gate, up);
    ggml_tensor * y    = ggml_mul_mat_id(g.ctx, w.down, act, ids); // {n_embd, n_used, n}
    y                  = ggml_mul(g.ctx, y, weights);

    ggml_tensor * sum = nullptr;
    for (int32_t rank = 0; rank < w.n_used; ++rank) {
        ggml_tensor * part = ggml_view_2d(g.ctx, y, n_embd, n, y->nb[2], static_cast<size_t>(rank) * y->nb[1]);
        sum                = sum == nullptr ? part : ggml_add(g.ctx, sum, part);
    }
    return w.n_used == 1 ? ggml_cont(g.ctx, sum) : sum;
}

} // namespace pyspec
