// qwen2: Qwen 1.5, 2 and 2.5 dense models. Biases on Q, K and V.
#include "families/standard_decoder.h"

namespace pyspec {

std::unique_ptr<Family> make_qwen2(const ModelFile & file, TensorLoader & tensors) {
    return std::make_unique<StandardDecoder>(read_hparams(file, "qwen2"), StandardTraits{RopePairing::halves}, tensors);
}

} // namespace pyspec
