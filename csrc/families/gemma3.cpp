// gemma3: text part of Gemma 3. Five of six layers see a sliding window and use their own rope base; norms before and
// after attention and feed-forward; Q and K normalised per head; gelu gate; embeddings scaled by sqrt(n_embd). Window
// layers use a full-size cache and look at its end.
#include "families/decoder.h"

#include <cmath>

namespace pyspec {

namespace {

constexpr int32_t default_period = 6;  // every sixth layer attends fully
constexpr int32_t n_layer_of_27b = 62; // the one size whose query scale is not 1/sqrt(head size)

class Gemma3 : public Family {
public:
    Gemma3(const ModelFile & file, TensorLoader & t) : Family(read_hparams(file, "gemma3")) {
        read_window(file);
        h_.rope.pairing         = RopePairing::halves;
        window_rope_            = h_.rope;
        window_rope_.freq_base  = file.find_f32(h_.key("rope.freq_base_swa")).value_or(10000.0f);
        window_rope_.freq_scale = 1.0f;
        softcap_                = file.find_f32(h_.key("final_logit_softcapping")).value_or(0.0f);
        const int32_t dim       = h_.n_layer == n_layer_of_27b ? h_.n_embd / h_.n_head[0] : h_.head_dim_k;
        query_scale_            = 1.0f / std::sqrt(static_cast<float>(dim));

        ends_ = load_ends(t, h_);
        for (int32_t il = 0; il < h_.n_layer; ++il) {
            Layer layer;
            layer.attn_norm      = t.vector(block_name(il, "attn_norm.weight"), h_.n_embd);
            layer.attention      = load_attention(t, h_, il);
            layer.q_norm         = t.vector(block_name(il, "attn_q_norm.weight"), h_.head_dim_k);
            layer.k_norm         = t.vector(block_name(il, "attn_k_norm.weight"), h_.head_dim_k);
            layer.attn_post_norm = t.vector(block_name(il, "post_attention_norm.weight"), h_.n_embd);
            layer.ffn_norm       = t.vector(block_name(il, "ffn_norm.weight"), h_.n_embd);
            layer.ffn            = load_ffn(t, h_, il);
            layer.ffn_post_norm  = t.vector(block_name(il, "post_ffw_norm.weight"), h_.n_embd);
            layers_.push_back(layer);
        }
    }

    RopeParams cache_rope(int32_t layer, int32_t) const override {
        return h_.is_swa[static_cast<size_t>(layer)] ? window_rope_ : h_.rope;
    }

    void build(GraphBuilder & g) const override {
        ggml_tensor * x = embedding(g, ends_.table, g.tokens());
        x               = ggml_scale(g.ctx, x, std::sqrt(static_cast<float>(h_.n_embd)));
        for (int32_t il = 0; il < h_.n_layer; ++il) {
            const Layer & layer = layers_[static_cast<size_t>(il)];
            const bool window   = h_.is_swa[static_cast<size_t>(il)];
            const RopeParams rp = cache_rope(il, g.n_ctx);
            const AttentionParams ap{1.0f, window ? h_.n_swa : 0, 0.0f};
            g.tap(il, x);

            ggml_tensor * u = rms_norm(g, x, layer.attn_norm, h_.eps);
            Qkv p           = project_qkv(g, h_, il, layer.attention, u);
            p.k             = rope(g, rms_norm(g, p.k, layer.k_norm, h_.eps), rp);
            write_cache(g, il, p.k, p.v);
            if (g.done_after_cache_writes(il, h_.n_layer)) {
                return;
            }
            p.q = rope(g, rms_norm(g, p.q, layer.q_norm, h_.eps), rp);
            p.q = ggml_scale(g.ctx, p.q, query_scale_);
            ggml_tensor * a =
                attention(g, il, p.q, h_.head_dim_k, h_.head_dim_v, h_.n_head_kv[static_cast<size_t>(il)], ap);
            if (g.narrow_after_attention(il, h_.n_layer)) {
                a = g.output_rows(a);
                x = g.output_rows(x);
            }
            a = rms_norm(g, linear(g, layer.attention.out, a), layer.attn_post_norm, h_.eps);
            x = ggml_add(g.ctx, x, a);
            u = rms_norm(g, x, layer.ffn_norm, h_.eps);
            u = rms_norm(g, gated_ffn(g, layer.ffn, u, GateActivation::gelu), layer.ffn_post_norm, h_.eps);
            x = ggml_add(g.ctx, x, u);
        }
        finish(g, h_, ends_, x, softcap_);
    }

private:
    struct Layer {
        ggml_tensor * attn_norm = nullptr;
        AttentionWeights attention;
        ggml_tensor * q_norm         = nullptr; // {head_dim_k}
        ggml_tensor * k_norm         = nullptr;
        ggml_tensor * attn_post_norm = nullptr;
        ggml_tensor * ffn_norm       = nullptr;
        FfnWeights ffn;
        ggml_tensor * ffn_post_norm = nullptr;
    };

    void read_window(const ModelFile & file) {
        const std::string key = h_.key("attention.sliding_window");
        const uint32_t n      = file.find_u32(key).value_or(0);
        require(n < (1u << 30), file, key, std::to_string(n), "a number of tokens");
        h_.n_swa = static_cast<int32_t>(n);
        if (h_.n_swa == 0) {
            return;
        }
        const std::string pattern_key = h_.key("attention.sliding_window_pattern");
        const auto flags              = file.find_flags(pattern_key);
        if (flags.has_value()) {
            require(flags->size() >= static_cast<size_t>(h_.n_layer), file, pattern_key,
                    format("an array of %zu", flags->size()), format("one flag for each of %d layers", h_.n_layer));
            for (int32_t il = 0; il < h_.n_layer; ++il) {
                h_.is_swa[static_cast<size_t>(il)] = (*flags)[static_cast<size_t>(il)];
            }
            return;
        }
        const uint32_t period = file.find_u32(pattern_key).value_or(default_period);
        require(period < (1u << 20), file, pattern_key, std::to_string(period), "a small number of layers");
        for (int32_t il = 0; il < h_.n_layer; ++il) {
            // A period of 0 means that every layer has the window, 1 that none has.
            h_.is_swa[static_cast<size_t>(il)] = period == 0 || static_cast<uint32_t>(il) % period < period - 1;
        }
    }

    RopeParams window_rope_;
    float softcap_     = 0.0f;
    float query_scale_ = 1.0f;
    Ends ends_;
    std::vector<Layer> layers_;
};

} // namespace

std::unique_ptr<Family> make_gemma3(const ModelFile & file, TensorLoader & tensors) {
    return std::make_unique<Gemma3>(file, tensors);
}

} // namespace pyspec
