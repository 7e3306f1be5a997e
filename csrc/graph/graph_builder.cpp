#include "graph/graph_builder.h"

#include "kernels/row_maxima.h"
#include "kernels/row_nodes.h"

#include <algorithm>

namespace pyspec {

GraphBuilder::GraphBuilder(ggml_context * ctx_, ggml_cgraph * graph_, const GraphShape & shape_, const KvCache & cache_,
                           const GraphOptions & options)
    : ctx(ctx_), graph(graph_), shape(shape_), cache(cache_), n_ctx(options.n_ctx), n_threads(options.n_threads),
      kernels(*options.kernels), run(options.run), tap_tensors(shape_.taps.size(), nullptr) {}

ggml_tensor * GraphBuilder::tokens() {
    if (tokens_ == nullptr) {
        tokens_ = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, shape.n_tokens);
        ggml_set_input(tokens_);
    }
    return tokens_;
}

ggml_tensor * GraphBuilder::positions() {
    if (positions_ == nullptr) {
        positions_ = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, shape.n_tokens);
        ggml_set_input(positions_);
    }
    return positions_;
}

ggml_tensor * GraphBuilder::visible(int32_t window) {
    for (const Visible & known : visibles) {
        if (known.window == window) {
            return known.tensor;
        }
    }
    ggml_tensor * tensor = ggml_new_tensor_2d(ctx, GGML_TYPE_I32, 2, shape.n_tokens);
    ggml_set_input(tensor);
    visibles.push_back({window, tensor});
    return tensor;
}

ggml_tensor * GraphBuilder::rope_table(const RopeParams & p) {
    for (const RopeTable & known : rope_tables) {
        if (known.params == p) {
            return known.tensor;
        }
    }
    RowPlan plan;
    plan.run            = run;
    plan.n_rot          = p.n_rot;
    plan.adjacent       = p.pairing == RopePairing::adjacent;
    ggml_tensor * pairs = unit_pairs_node(ctx, keep(plan), positions());
    ggml_tensor * table =
        ggml_rope_ext(ctx, pairs, positions(), p.factors, p.n_rot, static_cast<int>(p.pairing), p.n_ctx_orig,
                      p.freq_base, p.freq_scale, p.ext_factor, p.attn_factor, p.beta_fast, p.beta_slow);
    rope_tables.push_back({p, table});
    return table;
}

ggml_tensor * GraphBuilder::scratch(size_t bytes) {
    if (scratch_ == nullptr || static_cast<size_t>(scratch_->ne[0]) < bytes) {
        scratch_ = ggml_new_tensor_1d(ctx, GGML_TYPE_I8, std::max<int64_t>(1, static_cast<int64_t>(bytes)));
    }
    return scratch_;
}

ggml_tensor * GraphBuilder::output_rows(ggml_tensor * x) {
    if (shape.n_outputs == shape.n_tokens) {
        return x;
    }
    if (rows_ == nullptr) {
        rows_ = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, shape.n_outputs);
        ggml_set_input(rows_);
    }
    return ggml_get_rows(ctx, x, rows_);
}

bool GraphBuilder::wants_tap(int32_t layer) const {
    return std::find(shape.taps.begin(), shape.taps.end(), layer) != shape.taps.end();
}

bool GraphBuilder::narrow_after_attention(int32_t layer, int32_t n_layer) const {
    return layer == n_layer - 1 && !wants_tap(n_layer) && !wants_tap(tap_final);
}

bool GraphBuilder::done_after_cache_writes(int32_t layer, int32_t n_layer) const {
    return shape.n_outputs == 0 && narrow_after_attention(layer, n_layer);
}

void GraphBuilder::set_logits(ggml_tensor * x) {
    logits        = x;
    logits_maxima = row_maxima(ctx, run, x);
    ggml_set_output(logits_maxima);
    ggml_build_forward_expand(graph, logits_maxima);
}

void GraphBuilder::tap(int32_t layer, ggml_tensor * x) {
    for (size_t i = 0; i < shape.taps.size(); ++i) {
        if (shape.taps[i] == layer) {
            ggml_set_output(x); // keeps its memory until the end of the graph
            ggml_build_forward_expand(graph, x);
            tap_tensors[i] = x;
        }
    }
}

} // namespace pyspec
