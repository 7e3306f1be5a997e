// Parts that decoder-only transformer families have in common. A family composes them in its own order.
#pragma once

#include "families/family.h"
#include "graph/attention.h"
#include "graph/experts.h"
#include "graph/ffn.h"
#include "graph/linear.h"
#include "graph/norm.h"
#include "graph/rope.h"

#include <string>

namespace pyspec {

// "blk.3." + suffix
std::string block_name(int32_t layer, const char * suffix);

// weight, optional bias and optional scale of one product.
Linear load_linear(TensorLoader & t, const std::string & stem, int64_t in, int64_t out);

// Q, K and V projections, separate or fused, and the output projection.
struct AttentionWeights {
    Linear qkv; // fused rows q, k, v; then q, k and v are empty
    Linear q, k, v;
    Linear out;
};
AttentionWeights load_attention(TensorLoader & t, const Hparams & h, int32_t layer);

struct Qkv {
    ggml_tensor * q; // {head_dim_k, n_head, n}
    ggml_tensor * k; // {head_dim_k, n_head_kv, n}
    ggml_tensor * v; // {head_dim_v, n_head_kv, n}
};
Qkv project_qkv(GraphBuilder & g, const Hparams & h, int32_t layer, const AttentionWeights & w, ggml_tensor * x);

FfnWeights load_ffn(TensorLoader & t, const Hparams & h, int32_t layer);
FfnWeights load_fused_ffn(TensorLoader & t, const Hparams & h, int32_t layer); // ffn_up holds gate and up
ExpertWeights load_experts(TensorLoader & t, const Hparams & h, int32_t layer, int64_t n_ff);

// Token table, final norm and output matrix (the token table when the file has none).
struct Ends {
    ggml_tensor * table       = nullptr;
    ggml_tensor * output_norm = nullptr;
    Linear output;
};
Ends load_ends(TensorLoader & t, const Hparams & h);

// Final norm (with its taps) and logits of the output rows. x {n_embd, n}: all rows, or already narrowed ones.
// Sets g.logits unless no rows are wanted.
void finish(GraphBuilder & g, const Hparams & h, const Ends & ends, ggml_tensor * x, float softcap = 0.0f);

} // namespace pyspec
