// Attention of new tokens over the cache.
#pragma once

#include "graph/graph_builder.h"

namespace pyspec {

struct AttentionParams {
    float scale         = 1.0f;    // multiplies q.k inside the softmax
    int32_t window      = 0;       // keys with pos_q - pos_k >= window are hidden; 0 = all earlier keys are visible
    float softcap       = 0.0f;    // s = cap * tanh(s / cap) before the mask; 0 = off
    ggml_tensor * sinks = nullptr; // f32 {n_head}: a score of each head without a value, or null
};

// Stores k {head_dim, n_head_kv, n} and v {head_dim_v, n_head_kv, n} of the new tokens into the layer's cells.
void write_cache(GraphBuilder & g, int32_t layer, ggml_tensor * k, ggml_tensor * v);

// q {head_dim, n_head, n} against all cells of the layer, the new ones included (write_cache comes first).
// Result {head_dim_v * n_head, n}. Query head j uses key head j / (n_head / n_head_kv).
ggml_tensor * attention(GraphBuilder & g, int32_t layer, ggml_tensor * q, int32_t head_dim_k, int32_t head_dim_v,
                        int32_t n_head_kv, const AttentionParams & params);

} // namespace pyspec
