#include "runtime/model.h"

#include "kernels/instruction_set.h"
#include "support/log.h"
#include "support/system.h"

#include <algorithm>

namespace pyspec {

std::shared_ptr<const Model> Model::load(const std::string & path, const ModelOptions & options, Job * job) {
    std::shared_ptr<Model> model(new Model);
    model->file_    = ModelFile::open(path);
    model->kernels_ = &find_tile_set(options.kernels);
    const Placement placement =
        place_weights(options.device, options.use_mmap, model->file_->weight_bytes(), available_memory_bytes());
    check_cancelled(job, "loading the model");

    const ModelFile & file    = *model->file_;
    const FamilyEntry & entry = find_family(file);

    model->vocabulary_ = read_vocabulary(file);
    check_cancelled(job, "loading the model");

    ggml_init_params params{ggml_tensor_overhead() * (file.tensors().size() + 1), nullptr, true};
    model->meta_ = ggml_init(params);
    if (model->meta_ == nullptr) {
        throw Error(PYSPEC_OUT_OF_MEMORY, "cannot reserve the tensor table of the model");
    }
    model->tensors_ = std::make_unique<TensorLoader>(file, model->meta_);
    model->family_  = entry.make(file, *model->tensors_);

    const Hparams & h = model->hparams();
    for (int32_t il = h.n_layer; il < h.n_layer_all; ++il) {
        model->tensors_->ignore("blk." + std::to_string(il) + "."); // prediction blocks behind the trunk
    }
    model->tensors_->check_all_used();
    if (model->vocabulary_ != nullptr && model->vocabulary_->n_tokens > h.n_vocab) {
        throw Error(PYSPEC_FILE_FORMAT, format("%s: the vocabulary has %d tokens but token_embd.weight only %d rows",
                                               path.c_str(), model->vocabulary_->n_tokens, h.n_vocab));
    }

    for (const TensorLoader::Entry & e : model->tensors_->entries()) {
        model->n_params_ += ggml_nelements(e.tensor);
    }
    model->json_ = describe_json(file);
    if (options.pack_weights) {
        auto packed = std::make_unique<PackedWeights>(*model->tensors_, *model->kernels_);
        if (packed->matrix_bytes() > 0) { // else the file is mapped as a whole
            model->packed_ = std::move(packed);
        }
    }
    if (options.metadata_only) {
        // Graphs of such a model are measured, never run. Without an address the graph allocator would plan room for
        // weights.
        for (const TensorLoader::Entry & e : model->tensors_->entries()) {
            e.tensor->data = reinterpret_cast<void *>(uintptr_t{1} << 46);
        }
    } else {
        model->load_weights(placement, job);
    }
    return model;
}

ggml_backend_buffer_t Model::wrap(void * base, size_t size) {
    ggml_backend_buffer_t buffer = ggml_backend_cpu_buffer_from_ptr(base, size);
    if (buffer == nullptr) {
        throw Error(PYSPEC_OUT_OF_MEMORY, "cannot wrap the weights of " + file_->path());
    }
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    buffers_.push_back(buffer);
    return buffer;
}

void Model::load_weights(Placement placement, Job * job) {
    if (packed_ != nullptr) {
        check_packing_fits(packed_->bytes(), available_memory_bytes());
    }
    std::vector<const TensorInfo *> as_they_are; // in place, in the plain layout
    for (const TensorLoader::Entry & e : tensors_->entries()) {
        if (packed_ == nullptr || !packed_->holds(e.tensor)) {
            as_they_are.push_back(e.info);
        }
    }
    LoadProgress progress(job, file_->weight_bytes());
    file_->load_data(placement == Placement::mapped, as_they_are, progress);
    std::vector<ggml_backend_buffer_t> of_parts; // one buffer over each part of which something is used in place
    for (const ModelFile::Region & region : file_->regions()) {
        of_parts.push_back(region.size == 0 ? nullptr : wrap(region.base, region.size));
    }
    ggml_backend_buffer_t packed_buffer = nullptr;
    if (packed_ != nullptr) {
        packed_->load(*file_, physical_cpu_count(), progress);
        packed_buffer = wrap(packed_->base(), static_cast<size_t>(packed_->bytes()));
    }
    for (const TensorLoader::Entry & e : tensors_->entries()) {
        if (packed_ != nullptr && packed_->holds(e.tensor)) {
            e.tensor->buffer = packed_buffer;
        } else { // ggml has no const tensors; weights are never written
            e.tensor->buffer = of_parts[static_cast<size_t>(e.info->part)];
            e.tensor->data   = const_cast<void *>(file_->data(*e.info));
        }
    }
    if (job != nullptr) {
        job->progress.store(1.0, std::memory_order_relaxed);
    }
    has_weights_ = true;
    log_message(PYSPEC_LOG_INFO,
                format("loaded %s: %s, %.1f M parameters, %.1f MB, of which %.1f MB are packed for kernels %s",
                       file_->path().c_str(), hparams().arch.c_str(), static_cast<double>(n_params_) / 1e6,
                       static_cast<double>(file_->weight_bytes()) / 1e6,
                       packed_ == nullptr ? 0.0 : static_cast<double>(packed_->matrix_bytes()) / 1e6, kernels_->name));
}

Model::~Model() {
    for (ggml_backend_buffer_t buffer : buffers_) {
        ggml_backend_buffer_free(buffer);
    }
    ggml_free(meta_);
}

} // namespace pyspec
