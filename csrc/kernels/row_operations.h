// Operations on single rows of activations: norm, gates, rotation.
//
// Included by files that are compiled for other instruction sets than the rest: no inline functions here.
#pragma once

#include <cstdint>

namespace pyspec {

struct RowRoutines {
    // y = x / sqrt(mean(x^2) + eps) * w; w may be null. The sum of squares runs in 16 parts, combined in order. x may
    // be y.
    void (*rms_norm)(const float * x, const float * w, int64_t n, float eps, float * y);
    // y = gate * sigmoid(gate) * up
    void (*silu_gate)(const float * gate, const float * up, int64_t n, float * y);
    // y = gelu(gate) * up, with gelu(x) = x * sigmoid(2 * sqrt(2/pi) * (x + 0.044715 x^3)), which is the form with tanh
    void (*gelu_gate)(const float * gate, const float * up, int64_t n, float * y);
};

} // namespace pyspec
