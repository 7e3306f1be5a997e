#include "graph/attention.h"

namespace pyspec {

void write_cache(GraphBuilder & g, int32_t layer, ggml_tensor * k, ggml_tensor * v) {
    const int64_t n       = g.shape.n_tokens;
    ggml_tensor * cache_k = g.cache.k(layer);
    ggml_tensor * cache_v = g.cache.v(layer);

    const auto flat = [&](ggml_tensor * x) { // {head_dim, n_head_kv, n} -> {head_dim * n_head_kv, n}
        return ggml_is_contiguous(x) ? ggml_reshape_2d(g.ctx, x, x->ne[0] * x->ne[1], n)
                                     : ggml_cont_2d(g.ctx, x, x->ne[0] * x->ne[1], n);
    };
    const auto store = [&](ggml_tensor * x, ggml_tensor * view, size_t cell_bytes) {
        ggml_tensor * copy = ggml_cpy(g.ctx, x, view);
        ggml_build_forward_expand(g.graph, copy); // nothing else makes the reads below wait for the writes
        g.cache_writes.push_back({view, copy, cell_bytes});
    };
    store(flat(k), ggml_view_2d(g.ctx, cache_k, cache_k->ne[0], n, cache_k->nb[1], 0), cache_k->nb[1]);
    if (g.cache.v_transposed()) {
        store(ggml_transpose(g.ctx, flat(v)), ggml_view_2d(g.ctx, cache_v, n, cache_v->ne[1], cache_v->nb[1], 0),
              cache_v->nb[0]);
    } else {
        store(flat(v), ggml_view_2d(g.ctx, cache_v, cache_v->ne[0], n, cache_v->nb[1], 0), cache_v->nb[1]);
    }
}

ggml_tensor * attention(GraphBuilder & g, int32_t layer, ggml_tensor * q, int32_t head_dim_k, int32_t head_dim_v,
                        int32_t n_head_kv, const AttentionParams & params) {
    const int64_t n_kv    = g.shape.n_kv;
    const int64_t n       = q->ne[2];
    const int64_t n_head  = q->ne[1];
    ggml_tensor * cache_k = g.cache.k(layer);
    ggml_tensor * cache_v = g.cache.v(layer);

    ggml_tensor * k = ggml_view_3d(g.ctx, cache_k, head_dim_k, n_kv, n_head_kv, cache_k->nb[1],
                                   ggml_row_size(cache_k->type, head_dim_k), 0);
    q               = ggml_permute(g.ctx, q, 0, 2, 1, 3); // {head_dim, n, n_head}

    if (!g.cache.v_transposed()) {
        // Quantised V runs along rows; ggml's flash attention reads it in place. The context switches the backend to
        // the reference form of the op, the only one whose result does not depend on the number of queries.
        ggml_tensor * v = ggml_view_3d(g.ctx, cache_v, head_dim_v, n_kv, n_head_kv, cache_v->nb[1],
                                       ggml_row_size(cache_v->type, head_dim_v), 0);
        ggml_tensor * y =
            ggml_flash_attn_ext(g.ctx, q, k, v, g.mask(params.window), params.scale, 0.0f, params.softcap);
        ggml_flash_attn_ext_set_prec(y, GGML_PREC_F32);
        return ggml_reshape_2d(g.ctx, y, head_dim_v * n_head, n);
    }

    ggml_tensor * scores = ggml_mul_mat(g.ctx, k, q); // {n_kv, n, n_head}
    ggml_mul_mat_set_prec(scores, GGML_PREC_F32);
    float scale = params.scale;
    if (params.softcap != 0.0f) {
        scores = ggml_scale(g.ctx, scores, scale / params.softcap);
        scores = ggml_tanh(g.ctx, scores);
        scores = ggml_scale(g.ctx, scores, params.softcap);
        scale  = 1.0f;
    }
    ggml_tensor * weights = ggml_soft_max_ext(g.ctx, scores, g.mask(params.window), scale, 0.0f);
    ggml_tensor * v       = ggml_view_3d(g.ctx, cache_v, n_kv, head_dim_v, n_head_kv, cache_v->nb[1],
                                         cache_v->nb[1] * static_cast<size_t>(head_dim_v), 0);
    ggml_tensor * y       = ggml_mul_mat(g.ctx, v, weights); // {head_dim_v, n, n_head}
    y                     = ggml_permute(g.ctx, y, 0, 2, 1, 3);
    return ggml_cont_2d(g.ctx, y, head_dim_v * n_head, n);
}

} // namespace pyspec
