#include "families/hparams.h"

#include <algorithm>
#include <cmath>

namespace pyspec {

namespace {

constexpr uint32_t max_layers  = 512;
constexpr uint32_t max_experts = 1024;
constexpr uint32_t max_dim     = 1u << 24; // keeps every product of two dimensions far from overflow

int32_t bounded(const ModelFile & file, const std::string & key, uint32_t value, uint32_t lo, uint32_t hi) {
    require(value >= lo && value <= hi, file, key, std::to_string(value), format("%u to %u", lo, hi));
    return static_cast<int32_t>(value);
}

std::vector<int32_t> per_layer(const ModelFile & file, const std::string & key, uint32_t n_layer, uint32_t fallback,
                               uint32_t lo) {
    std::vector<uint32_t> values =
        file.find_u32_per_layer(key, n_layer).value_or(std::vector<uint32_t>(n_layer, fallback));
    std::vector<int32_t> out;
    for (uint32_t value : values) {
        out.push_back(bounded(file, key, value, lo, max_dim));
    }
    return out;
}

// Section "context-level scaling" of the rope rules of GGUF files: frequency scale, yarn and magnitude.
void read_rope_scaling(const ModelFile & file, Hparams & h) {
    const std::string type = std::string(file.find_str(h.key("rope.scaling.type")).value_or("linear"));
    require(type == "none" || type == "linear" || type == "yarn" || type == "longrope", file,
            h.key("rope.scaling.type"), type, "none, linear, yarn or longrope");
    float factor = file.find_f32(h.key("rope.scaling.factor")).value_or(0.0f);
    if (factor == 0.0f) {
        factor = file.find_f32(h.key("rope.scale_linear")).value_or(0.0f);
    }
    require(std::isfinite(factor) && factor >= 0.0f, file, h.key("rope.scaling.factor"), std::to_string(factor),
            "a positive number");
    h.rope.freq_scale = type == "none" || factor == 0.0f ? 1.0f : 1.0f / factor;
    h.rope.ext_factor = type == "yarn" ? 1.0f : 0.0f;

    float magnitude = 1.0f;
    if (h.rope.ext_factor != 0.0f && h.rope.freq_scale < 1.0f) {
        // ggml multiplies by 1 + 0.1 ln(s) itself when ext_factor is set; the two cancel here and leave g(s, 1).
        const float s = 1.0f / h.rope.freq_scale;
        magnitude     = (0.1f * std::log(s) + 1.0f) / (1.0f + 0.1f * std::log(s));
    }
    h.rope.attn_factor = magnitude * file.find_f32(h.key("rope.scaling.attn_factor")).value_or(1.0f);
    h.rope.n_ctx_orig  = bounded(
        file, h.key("rope.scaling.original_context_length"),
        file.find_u32(h.key("rope.scaling.original_context_length")).value_or(static_cast<uint32_t>(h.n_ctx_train)), 1,
        1u << 30);
}

} // namespace

void require(bool condition, const ModelFile & file, const std::string & key, const std::string & found,
             const std::string & expected) {
    if (!condition) {
        throw Error(PYSPEC_FILE_FORMAT, format("%s: %s is %s, expected %s", file.path().c_str(), key.c_str(),
                                               found.c_str(), expected.c_str()));
    }
}

Hparams read_hparams(const ModelFile & file, const std::string & arch) {
    Hparams h;
    h.arch        = arch;
    h.n_ctx_train = bounded(file, h.key("context_length"), file.get_u32(h.key("context_length")), 1, 1u << 30);
    h.n_embd      = bounded(file, h.key("embedding_length"), file.get_u32(h.key("embedding_length")), 1, max_dim);
    const uint32_t n_all  = file.get_u32(h.key("block_count"));
    h.n_layer_all         = bounded(file, h.key("block_count"), n_all, 1, max_layers);
    const uint32_t n_next = file.find_u32(h.key("nextn_predict_layers")).value_or(0);
    h.n_layer             = h.n_layer_all - bounded(file, h.key("nextn_predict_layers"), n_next, 0, n_all - 1);

    h.eps = file.get_f32(h.key("attention.layer_norm_rms_epsilon"));
    require(std::isfinite(h.eps) && h.eps > 0.0f, file, h.key("attention.layer_norm_rms_epsilon"),
            std::to_string(h.eps), "a positive number");

    h.n_head    = per_layer(file, h.key("attention.head_count"), n_all, 0, 1);
    h.n_head_kv = per_layer(file, h.key("attention.head_count_kv"), n_all, static_cast<uint32_t>(h.n_head[0]), 1);
    h.n_ff      = per_layer(file, h.key("feed_forward_length"), n_all, 0, 0);
    for (size_t i = 0; i < h.n_head.size(); ++i) {
        require(h.n_head[i] % h.n_head_kv[i] == 0, file, h.key("attention.head_count_kv"),
                std::to_string(h.n_head_kv[i]), format("a divisor of head_count %d", h.n_head[i]));
    }
    const uint32_t default_dim = static_cast<uint32_t>(h.n_embd / h.n_head[0]);
    h.head_dim_k               = bounded(file, h.key("attention.key_length"),
                                         file.find_u32(h.key("attention.key_length")).value_or(default_dim), 1, 65536);
    h.head_dim_v = bounded(file, h.key("attention.value_length"),
                           file.find_u32(h.key("attention.value_length")).value_or(default_dim), 1, 65536);

    h.n_expert = bounded(file, h.key("expert_count"), file.find_u32(h.key("expert_count")).value_or(0), 0, max_experts);
    const auto used = file.find_u32_per_layer(h.key("expert_used_count"), n_all);
    h.n_expert_used = used.has_value() ? bounded(file, h.key("expert_used_count"), used->front(), 0, max_experts) : 0;
    if (h.n_expert > 0) {
        require(h.n_expert_used > 0 && h.n_expert_used <= h.n_expert, file, h.key("expert_used_count"),
                std::to_string(h.n_expert_used), format("1 to expert_count (%d)", h.n_expert));
    }

    h.rope.n_rot = bounded(file, h.key("rope.dimension_count"),
                           file.find_u32(h.key("rope.dimension_count")).value_or(static_cast<uint32_t>(h.head_dim_k)),
                           1, static_cast<uint32_t>(h.head_dim_k));
    require(h.rope.n_rot % 2 == 0, file, h.key("rope.dimension_count"), std::to_string(h.rope.n_rot), "an even number");
    h.rope.freq_base = file.find_f32(h.key("rope.freq_base")).value_or(10000.0f);
    require(std::isfinite(h.rope.freq_base) && h.rope.freq_base > 0.0f, file, h.key("rope.freq_base"),
            std::to_string(h.rope.freq_base), "a positive number");
    read_rope_scaling(file, h);
    h.is_swa.assign(static_cast<size_t>(h.n_layer_all), false);

    const TensorInfo * table = file.find_tensor("token_embd.weight");
    if (table == nullptr) {
        throw Error(PYSPEC_FILE_FORMAT, format("%s: tensor token_embd.weight is missing", file.path().c_str()));
    }
    require(table->n_dims == 2 && table->ne[1] > 0 && table->ne[1] < (int64_t{1} << 28), file, "token_embd.weight",
            format("of %lld rows", static_cast<long long>(table->ne[1])), "a table with one row per token");
    h.n_vocab = static_cast<int32_t>(table->ne[1]);
    return h;
}

} // namespace pyspec
