// Rotary position embedding.
#pragma once

#include "graph/graph_builder.h"

namespace pyspec {

enum class RopePairing : int {
    adjacent = GGML_ROPE_TYPE_NORMAL, // (x[2i], x[2i+1])
    halves   = GGML_ROPE_TYPE_NEOX,   // (x[i], x[i + n_rot/2])
};

struct RopeParams {
    RopePairing pairing   = RopePairing::adjacent;
    int32_t n_rot         = 0; // leading elements of a head that are rotated
    int32_t n_ctx_orig    = 0;
    float freq_base       = 10000.0f;
    float freq_scale      = 1.0f;
    float ext_factor      = 0.0f; // yarn
    float attn_factor     = 1.0f; // magnitude of cos and sin
    float beta_fast       = 32.0f;
    float beta_slow       = 1.0f;
    ggml_tensor * factors = nullptr; // {n_rot/2} divisors of the angles, or null
};

// x {head_dim, n_head, n_tokens}
inline ggml_tensor * rope(GraphBuilder & g, ggml_tensor * x, const RopeParams & p) {
    return ggml_rope_ext(g.ctx, x, g.positions(), p.factors, p.n_rot, static_cast<int>(p.pairing), p.n_ctx_orig,
                         p.freq_base, p.freq_scale, p.ext_factor, p.attn_factor, p.beta_fast, p.beta_slow);
}

} // namespace pyspec
