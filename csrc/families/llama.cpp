// llama: Llama 1 to 3, Mistral 7B and Nemo, TinyLlama, SmolLM, Mixtral (the mixture-of-experts form) and relatives.
// Rows of Q and K are stored for adjacent rope pairs; Mistral's sliding window is ignored, as its files expect.
#include "families/standard_decoder.h"

namespace pyspec {

std::unique_ptr<Family> make_llama(const ModelFile & file, TensorLoader & tensors) {
    Hparams h = read_hparams(file, "llama");
    require(h.rope.n_rot == h.head_dim_k, file, h.key("rope.dimension_count"), std::to_string(h.rope.n_rot),
            format("the head size %d", h.head_dim_k));
    StandardTraits traits{RopePairing::adjacent};
    traits.rope_freqs  = true;
    traits.long_rope   = file.find_str(h.key("rope.scaling.type")).value_or("") == "longrope";
    traits.ffn         = h.n_expert > 0 ? FfnKind::experts : FfnKind::gated;
    traits.n_ff_expert = h.n_ff[0];
    return std::make_unique<StandardDecoder>(std::move(h), traits, tensors);
}

} // namespace pyspec
