#include "graph/attention.h"

#include "kernels/attention.h"

namespace pyspec {

void write_cache(GraphBuilder & g, int32_t layer, ggml_tensor * k, ggml_tensor * v) {
    const int64_t n = g.shape.n_tokens;
    const auto flat = [&](ggml_tensor * x) { // {head_dim, n_head_kv, n} -> {head_dim * n_head_kv, n}
        return ggml_is_contiguous(x) ? ggml_reshape_2d(g.ctx, x, x->ne[0] * x->ne[1], n)
                                     : ggml_cont_2d(g.ctx, x, x->ne[0] * x->ne[1], n);
    };
    const auto store = [&](ggml_tensor * x, ggml_tensor * cache) {
        ggml_tensor * view = ggml_view_2d(g.ctx, cache, cache->ne[0], n, cache->nb[1], 0);
        ggml_tensor * copy = ggml_cpy(g.ctx, flat(x), view);
        ggml_build_forward_expand(g.graph, copy); // nothing else makes the reads below wait for the writes
        g.cache_writes.push_back({view, copy, cache->nb[1]});
    };
    store(k, g.cache.k(layer));
    store(v, g.cache.v(layer));
}

ggml_tensor * attention(GraphBuilder & g, int32_t layer, ggml_tensor * q, int32_t head_dim_k, int32_t head_dim_v,
                        int32_t n_head_kv, const AttentionParams & params) {
    AttentionPlan plan;
    plan.run       = g.run;
    plan.routines  = g.kernels.attention;
    plan.dim_k     = head_dim_k;
    plan.dim_v     = head_dim_v;
    plan.n_head    = static_cast<int32_t>(q->ne[1]);
    plan.n_head_kv = n_head_kv;
    plan.n_cells   = g.shape.n_kv;
    plan.scale     = params.scale;
    plan.softcap   = params.softcap;
    plan.sinks     = params.sinks != nullptr;
    return attention_node(g.ctx, g.keep(plan), q, g.cache.k(layer), g.cache.v(layer), g.visible(params.window),
                          g.scratch(attention_scratch_bytes(plan, q->ne[2], g.n_threads)), params.sinks);
}

} // namespace pyspec
