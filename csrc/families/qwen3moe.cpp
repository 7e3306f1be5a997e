// qwen3moe: Qwen 3 with a mixture of experts in every layer, no shared expert.
#include "families/standard_decoder.h"

namespace pyspec {

std::unique_ptr<Family> make_qwen3moe(const ModelFile & file, TensorLoader & tensors) {
    Hparams h = read_hparams(file, "qwen3moe");
    require(h.n_expert > 0, file, h.key("expert_count"), std::to_string(h.n_expert), "at least 1");
    StandardTraits traits{RopePairing::halves};
    traits.qk_norm = true;
    traits.ffn     = FfnKind::experts;

    const auto widths =
        file.find_u32_per_layer(h.key("expert_feed_forward_length"), static_cast<uint32_t>(h.n_layer_all));
    traits.n_ff_expert = widths.has_value() ? widths->front() : 0;
    if (traits.n_ff_expert == 0) {
        traits.n_ff_expert = h.n_ff[0] / h.n_expert_used;
    }
    return std::make_unique<StandardDecoder>(std::move(h), traits, tensors);
}

} // namespace pyspec
