// What a rotary position embedding depends on besides the position.
#pragma once

#include "ggml.h"

#include <cstdint>

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

    bool operator==(const RopeParams &) const = default;
};

} // namespace pyspec
