// Products of quantised weight matrices with activation rows, for any number of rows, in one order of operations.
//
// Activations are quantised once per row by a node of its own, which every product that shares the input reuses. A
// result element is computed by the same sequence of operations whatever the number of rows and threads: all tiles run
// one inner routine, fused multiply-adds are explicit, threads split the output rows. So it is bit-equal for 1 and for
// 512 rows.
//
// Types: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q6_K, where the build has AVX-512 with VNNI. Everything else is computed
// by ggml, whose plain product has the same property.
#pragma once

#include "ggml.h"

namespace pyspec {

// How activations must be quantised for a weight type.
enum class ActivationKind {
    none,      // no kernel: use ggml's product
    blocks32,  // a scale for every 32 values
    blocks256, // a scale for every 256 values
};

// The kind that a weight matrix {in, out} needs in this build.
ActivationKind activation_kind(const ggml_tensor * weight);

// x f32 {n, rows}, rows contiguous -> opaque rows of bytes {row bytes, rows}.
ggml_tensor * quantise_rows(ggml_context * ctx, ggml_tensor * x, ActivationKind kind);

// weight {in, out}, x from quantise_rows with the weight's kind -> f32 {out, rows}
ggml_tensor * quantised_product(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x);

} // namespace pyspec
