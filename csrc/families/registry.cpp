#include "families/family.h"
#include "support/text.h"

namespace pyspec {

std::unique_ptr<Family> make_llama(const ModelFile & file, TensorLoader & tensors);
std::unique_ptr<Family> make_qwen2(const ModelFile & file, TensorLoader & tensors);
std::unique_ptr<Family> make_qwen3(const ModelFile & file, TensorLoader & tensors);
std::unique_ptr<Family> make_qwen3moe(const ModelFile & file, TensorLoader & tensors);
std::unique_ptr<Family> make_phi3(const ModelFile & file, TensorLoader & tensors);
std::unique_ptr<Family> make_gemma3(const ModelFile & file, TensorLoader & tensors);

const std::vector<FamilyEntry> & families() {
    static const std::vector<FamilyEntry> entries = {
        {"llama", make_llama},       {"qwen2", make_qwen2}, {"qwen3", make_qwen3},
        {"qwen3moe", make_qwen3moe}, {"phi3", make_phi3},   {"gemma3", make_gemma3},
    };
    return entries;
}

const FamilyEntry & find_family(const ModelFile & file) {
    const std::string_view architecture = file.get_str("general.architecture");
    std::string known;
    for (const FamilyEntry & entry : families()) {
        if (architecture == entry.architecture) {
            return entry;
        }
        known += (known.empty() ? "" : ", ") + std::string(entry.architecture);
    }
    throw Error(PYSPEC_UNSUPPORTED, format("%s: architecture %s is not supported (supported: %s)", file.path().c_str(),
                                           quote_bytes(architecture).c_str(), known.c_str()));
}

} // namespace pyspec
