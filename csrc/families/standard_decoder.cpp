#include "families/standard_decoder.h"

#include <cmath>

namespace pyspec {

StandardDecoder::StandardDecoder(Hparams h, const StandardTraits & traits, TensorLoader & t)
    : Family(std::move(h)), traits_(traits) {
    h_.rope.pairing = traits_.pairing;
    ends_           = load_ends(t, h_);
    if (traits_.rope_freqs) {
        factors_ = t.find_vector("rope_freqs.weight", h_.rope.n_rot / 2);
    }
    if (traits_.long_rope) {
        factors_long_  = t.find_vector("rope_factors_long.weight", h_.rope.n_rot / 2);
        factors_short_ = t.find_vector("rope_factors_short.weight", h_.rope.n_rot / 2);
    }
    for (int32_t il = 0; il < h_.n_layer; ++il) {
        Layer layer;
        layer.attn_norm = t.vector(block_name(il, "attn_norm.weight"), h_.n_embd);
        layer.attention = load_attention(t, h_, il);
        if (traits_.qk_norm) {
            layer.q_norm = t.vector(block_name(il, "attn_q_norm.weight"), h_.head_dim_k);
            layer.k_norm = t.vector(block_name(il, "attn_k_norm.weight"), h_.head_dim_k);
        }
        layer.ffn_norm = t.vector(block_name(il, "ffn_norm.weight"), h_.n_embd);
        switch (traits_.ffn) {
        case FfnKind::gated:
            layer.ffn = load_ffn(t, h_, il);
            break;
        case FfnKind::fused:
            layer.ffn = load_fused_ffn(t, h_, il);
            break;
        case FfnKind::experts:
            layer.experts = load_experts(t, h_, il, traits_.n_ff_expert);
            break;
        }
        layers_.push_back(layer);
    }
}

int32_t StandardDecoder::cache_variant(int32_t n_ctx) const {
    return factors_long_ != nullptr && factors_short_ != nullptr && n_ctx > h_.rope.n_ctx_orig ? 1 : 0;
}

RopeParams StandardDecoder::cache_rope(int32_t, int32_t n_ctx) const {
    RopeParams rope = h_.rope;
    rope.factors    = factors_;
    if (factors_long_ != nullptr && factors_short_ != nullptr) {
        rope.factors = cache_variant(n_ctx) == 1 ? factors_long_ : factors_short_;
    }
    return rope;
}

void StandardDecoder::build(GraphBuilder & g) const {
    const AttentionParams ap{1.0f / std::sqrt(static_cast<float>(h_.head_dim_k)), 0, 0.0f};

    ggml_tensor * x = embedding(g, ends_.table, g.tokens());
    for (int32_t il = 0; il < h_.n_layer; ++il) {
        const Layer & layer = layers_[static_cast<size_t>(il)];
        const RopeParams rp = cache_rope(il, g.n_ctx);
        g.tap(il, x);
        ggml_tensor * u = rms_norm(g, x, layer.attn_norm, h_.eps);
        Qkv p           = project_qkv(g, h_, il, layer.attention, u);
        if (traits_.qk_norm) {
            p.q = rms_norm(g, p.q, layer.q_norm, h_.eps);
            p.k = rms_norm(g, p.k, layer.k_norm, h_.eps);
        }
        write_cache(g, il, rope(g, p.k, rp), p.v);
        if (g.done_after_cache_writes(il, h_.n_layer)) {
            return;
        }
        ggml_tensor * a =
            attention(g, il, rope(g, p.q, rp), h_.head_dim_k, h_.head_dim_v, h_.n_head_kv[static_cast<size_t>(il)], ap);
        if (g.narrow_after_attention(il, h_.n_layer)) {
            a = g.output_rows(a);
            x = g.output_rows(x);
        }
        x = linear(g, layer.attention.out, a, x);
        u = rms_norm(g, x, layer.ffn_norm, h_.eps);
        x = traits_.ffn == FfnKind::experts ? ggml_add(g.ctx, x, experts(g, layer.experts, u))
                                            : gated_ffn(g, layer.ffn, u, GateActivation::silu, x);
    }
    finish(g, h_, ends_, x);
}

} // namespace pyspec
