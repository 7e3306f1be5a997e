// qwen3: dense Qwen 3. Head size independent of the width, Q and K normalised per head before rope.
#include "families/standard_decoder.h"

namespace pyspec {

std::unique_ptr<Family> make_qwen3(const ModelFile & file, TensorLoader & tensors) {
    StandardTraits traits{RopePairing::halves};
    traits.qk_norm = true;
    return std::make_unique<StandardDecoder>(read_hparams(file, "qwen3"), traits, tensors);
}

} // namespace pyspec
