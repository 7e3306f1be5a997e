// A loaded model: checked file, vocabulary, family with its weights. Immutable after load; shared by contexts and
// threads.
#pragma once

#include "families/family.h"
#include "weights/packing.h"
#include "weights/placement.h"
#include "weights/vocabulary.h"

#include "ggml-backend.h"

#include <memory>
#include <string>

namespace pyspec {

struct ModelOptions {
    std::string device  = "cpu";
    bool use_mmap       = true;
    bool metadata_only  = false;
    bool pack_weights   = true;   // into the form of our own kernels; else products read the file's bytes
    std::string kernels = "auto"; // instruction set of the kernels, see kernels/instruction_set.h
};

class Model {
public:
    // Throws Error: FILE_FORMAT, UNSUPPORTED, OPTION, OUT_OF_MEMORY, CANCELLED. job may be null.
    static std::shared_ptr<const Model> load(const std::string & path, const ModelOptions & options, Job * job);
    ~Model();
    Model(const Model &)             = delete;
    Model & operator=(const Model &) = delete;

    const ModelFile & file() const { return *file_; }
    const Vocabulary * vocabulary() const { return vocabulary_.get(); } // null when the file has none
    const Family & family() const { return *family_; }
    const Hparams & hparams() const { return family_->hparams(); }
    bool has_weights() const { return has_weights_; }
    const TileSet & kernels() const { return *kernels_; }
    const PackedWeights * packed() const { return packed_.get(); } // null when the weights stay as they are
    const std::string & json() const { return json_; }
    int64_t n_params() const { return n_params_; }

private:
    Model() = default;
    void load_weights(Placement placement, Job * job);
    ggml_backend_buffer_t wrap(void * base, size_t size);

    std::unique_ptr<ModelFile> file_;
    std::unique_ptr<Vocabulary> vocabulary_;
    ggml_context * meta_ = nullptr;
    std::unique_ptr<TensorLoader> tensors_;
    std::unique_ptr<Family> family_;
    const TileSet * kernels_ = nullptr;
    std::unique_ptr<PackedWeights> packed_;
    std::vector<ggml_backend_buffer_t> buffers_;
    std::string json_;
    int64_t n_params_ = 0;
    bool has_weights_ = false;
};

} // namespace pyspec
