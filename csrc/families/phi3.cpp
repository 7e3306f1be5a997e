// phi3: Phi-3, 3.5 and 4. Q, K and V in one product, gate and up in one product, partly rotated heads, long and short
// rope factors chosen by the configured context. The files' sliding window is ignored on purpose: the models attend
// fully. Multiplying q before the product or the scores inside the softmax is the same to rounding; the latter is used.
#include "families/standard_decoder.h"

namespace pyspec {

std::unique_ptr<Family> make_phi3(const ModelFile & file, TensorLoader & tensors) {
    StandardTraits traits{RopePairing::halves};
    traits.ffn       = FfnKind::fused;
    traits.long_rope = true;
    return std::make_unique<StandardDecoder>(read_hparams(file, "phi3"), traits, tensors);
}

} // namespace pyspec
