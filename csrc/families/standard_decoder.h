// The canonical decoder layer that several families share:
//   x1 = x + Wo attention(rope(norm(Wq h)), rope(norm(Wk h)), Wv h),  h = rms(x)
//   x2 = x1 + ffn(rms(x1))
// A family says what differs (rope pairing, Q/K norm, kind of feed-forward, long-context factors) and loads nothing
// itself.
#pragma once

#include "families/decoder.h"

namespace pyspec {

enum class FfnKind { gated, fused, experts };

struct StandardTraits {
    RopePairing pairing;
    FfnKind ffn         = FfnKind::gated;
    int64_t n_ff_expert = 0;     // width of one expert
    bool qk_norm        = false; // per head, before rope
    bool rope_freqs     = false; // uses rope_freqs.weight when the file has it
    bool long_rope      = false; // uses rope_factors_long/short.weight when the file has them
};

class StandardDecoder : public Family {
public:
    StandardDecoder(Hparams h, const StandardTraits & traits, TensorLoader & t);

    void build(GraphBuilder & g) const override;
    int32_t cache_variant(int32_t n_ctx) const override;
    RopeParams cache_rope(int32_t layer, int32_t n_ctx) const override;

private:
    struct Layer {
        ggml_tensor * attn_norm = nullptr;
        AttentionWeights attention;
        ggml_tensor * q_norm   = nullptr; // {head_dim_k}
        ggml_tensor * k_norm   = nullptr;
        ggml_tensor * ffn_norm = nullptr;
        FfnWeights ffn;
        ExpertWeights experts;
    };

    StandardTraits traits_;
    Ends ends_;
    ggml_tensor * factors_       = nullptr;
    ggml_tensor * factors_long_  = nullptr;
    ggml_tensor * factors_short_ = nullptr;
    std::vector<Layer> layers_;
};

} // namespace pyspec
