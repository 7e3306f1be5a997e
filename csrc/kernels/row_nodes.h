// Norms, gates and rotations of activation rows as graph nodes: rows are shared out over the threads, a row is computed
// by one of them in an order of its own.
#pragma once

#include "kernels/kernel_run.h"
#include "kernels/row_operations.h"

#include "ggml.h"

namespace pyspec {

enum class GateActivation { silu, gelu };

// What these nodes know besides their sources. Outlives the graph.
struct RowPlan {
    KernelRun * run              = nullptr;
    const RowRoutines * routines = nullptr;
    float eps                    = 0.0f;                 // norm
    GateActivation activation    = GateActivation::silu; // gate
    int32_t n_rot                = 0;                    // rotation: leading elements that are rotated
    bool adjacent                = false;                // pairs (2i, 2i + 1); else (i, i + n_rot / 2)
};

// x f32 {n, ...}, elements of a row side by side; w f32 {n} or null -> f32 of x's shape.
ggml_tensor * rms_norm_node(ggml_context * ctx, const RowPlan * plan, ggml_tensor * x, ggml_tensor * w);

// gate_up f32 {2 n, rows}: gate first -> f32 {n, rows}
ggml_tensor * gate_node(ggml_context * ctx, const RowPlan * plan, ggml_tensor * gate_up);

// Pairs (1, 0) for each token: rotating them gives the cosines and sines. positions I32 {n} -> f32 {n_rot, 1, n}
ggml_tensor * unit_pairs_node(ggml_context * ctx, const RowPlan * plan, ggml_tensor * positions);
// x f32 {head_dim, n_head, n}, table f32 {n_rot, 1, n}: unit pairs, rotated -> f32 {head_dim, n_head, n}
ggml_tensor * rotate_node(ggml_context * ctx, const RowPlan * plan, ggml_tensor * x, ggml_tensor * table);

} // namespace pyspec
