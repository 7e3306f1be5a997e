#include "families/decoder.h"

namespace pyspec {

std::string block_name(int32_t layer, const char * suffix) {
    return "blk." + std::to_string(layer) + "." + suffix;
}

Linear load_linear(TensorLoader & t, const std::string & stem, int64_t in, int64_t out) {
    Linear w;
    w.weight = t.linear(stem + ".weight", {in, out});
    w.bias   = t.find_vector(stem + ".bias", out);
    w.scale  = t.find_vector(stem + ".scale", 1);
    return w;
}

AttentionWeights load_attention(TensorLoader & t, const Hparams & h, int32_t layer) {
    const size_t i    = static_cast<size_t>(layer);
    const int64_t n_q = int64_t{h.n_head[i]} * h.head_dim_k;
    const int64_t n_k = int64_t{h.n_head_kv[i]} * h.head_dim_k;
    const int64_t n_v = int64_t{h.n_head_kv[i]} * h.head_dim_v;

    AttentionWeights w;
    if (t.has(block_name(layer, "attn_qkv.weight"))) {
        w.qkv = load_linear(t, block_name(layer, "attn_qkv"), h.n_embd, n_q + n_k + n_v);
    } else {
        w.q = load_linear(t, block_name(layer, "attn_q"), h.n_embd, n_q);
        w.k = load_linear(t, block_name(layer, "attn_k"), h.n_embd, n_k);
        w.v = load_linear(t, block_name(layer, "attn_v"), h.n_embd, n_v);
    }
    w.out = load_linear(t, block_name(layer, "attn_output"), int64_t{h.n_head[i]} * h.head_dim_v, h.n_embd);
    return w;
}

Qkv project_qkv(GraphBuilder & g, const Hparams & h, int32_t layer, const AttentionWeights & w, ggml_tensor * x) {
    const size_t i  = static_cast<size_t>(layer);
    const int64_t n = x->ne[1];
    ggml_tensor * y = w.qkv.weight != nullptr ? linear(g, w.qkv, x) : fused_linear(g, {&w.q, &w.k, &w.v}, x);
    size_t from     = 0;
    const auto part = [&](int32_t head_dim, int32_t n_head) {
        const size_t head_bytes = static_cast<size_t>(head_dim) * sizeof(float);
        ggml_tensor * view      = ggml_view_3d(g.ctx, y, head_dim, n_head, n, head_bytes, y->nb[1], from);
        from += head_bytes * static_cast<size_t>(n_head);
        return view;
    };
    Qkv out;
    out.q = part(h.head_dim_k, h.n_head[i]);
    out.k = part(h.head_dim_k, h.n_head_kv[i]);
    out.v = part(h.head_dim_v, h.n_head_kv[i]);
    return out;
}

FfnWeights load_ffn(TensorLoader & t, const Hparams & h, int32_t layer) {
    const int64_t n_ff = h.n_ff[static_cast<size_t>(layer)];
    FfnWeights w;
    w.gate = load_linear(t, block_name(layer, "ffn_gate"), h.n_embd, n_ff);
    w.up   = load_linear(t, block_name(layer, "ffn_up"), h.n_embd, n_ff);
    w.down = load_linear(t, block_name(layer, "ffn_down"), n_ff, h.n_embd);
    return w;
}

FfnWeights load_fused_ffn(TensorLoader & t, const Hparams & h, int32_t layer) {
    const int64_t n_ff = h.n_ff[static_cast<size_t>(layer)];
    FfnWeights w;
    w.up   = load_linear(t, block_name(layer, "ffn_up"), h.n_embd, 2 * n_ff);
    w.down = load_linear(t, block_name(layer, "ffn_down"), n_ff, h.n_embd);
    return w;
}

ExpertWeights load_experts(TensorLoader & t, const Hparams & h, int32_t layer, int64_t n_ff) {
    ExpertWeights w;
    w.n_expert      = h.n_expert;
    w.n_used        = h.n_expert_used;
    w.router.weight = t.linear(block_name(layer, "ffn_gate_inp.weight"), {h.n_embd, h.n_expert});
    w.gate          = t.linear(block_name(layer, "ffn_gate_exps.weight"), {h.n_embd, n_ff, h.n_expert});
    w.up            = t.linear(block_name(layer, "ffn_up_exps.weight"), {h.n_embd, n_ff, h.n_expert});
    w.down          = t.linear(block_name(layer, "ffn_down_exps.weight"), {n_ff, h.n_embd, h.n_expert});
    return w;
}

Ends load_ends(TensorLoader & t, const Hparams & h) {
    Ends ends;
    ends.table         = t.table("token_embd.weight", {h.n_embd, h.n_vocab});
    ends.output_norm   = t.vector("output_norm.weight", h.n_embd);
    ends.output.weight = t.find_linear("output.weight", {h.n_embd, h.n_vocab});
    if (ends.output.weight == nullptr) {
        ends.output.weight = t.linear("token_embd.weight", {h.n_embd, h.n_vocab});
    }
    ends.output.bias = t.find_vector("output.bias", h.n_vocab);
    return ends;
}

void finish(GraphBuilder & g, const Hparams & h, const Ends & ends, ggml_tensor * x, float softcap) {
    g.tap(h.n_layer, x);
    x = rms_norm(g, x, ends.output_norm, h.eps);
    g.tap(tap_final, x);
    if (g.shape.n_outputs == 0) {
        return;
    }
    if (x->ne[1] != g.shape.n_outputs) {
        x = g.output_rows(x);
    }
    ggml_tensor * logits = linear(g, ends.output, x);
    if (softcap != 0.0f) {
        logits = ggml_scale(g.ctx, logits, 1.0f / softcap);
        logits = ggml_tanh(g.ctx, logits);
        logits = ggml_scale(g.ctx, logits, softcap);
    }
    g.set_logits(logits);
}

} // namespace pyspec
