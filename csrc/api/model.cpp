#include "api/handles.h"

#include <algorithm>
#include <cstring>

using namespace pyspec;
using namespace pyspec::api;

namespace {

pyspec_model_params default_params() {
    pyspec_model_params params{};
    params.struct_size   = sizeof params;
    params.device        = nullptr;
    params.use_mmap      = true;
    params.metadata_only = false;
    params.pack_weights  = true;
    params.kernels       = nullptr;
    return params;
}

const Vocabulary & vocabulary_of(const pyspec_model * model) {
    const Vocabulary * vocabulary = model->model->vocabulary();
    if (vocabulary == nullptr) {
        throw Error(PYSPEC_UNSUPPORTED, model->model->file().path() + " has no vocabulary (tokenizer.ggml.tokens)");
    }
    return *vocabulary;
}

} // namespace

void pyspec_model_params_default(pyspec_model_params * params, size_t struct_size) {
    if (params != nullptr) {
        write_struct(params, default_params(), struct_size, "params");
    }
}

pyspec_status pyspec_model_load(const char * path, const pyspec_model_params * params, pyspec_job * job,
                                pyspec_model ** model) {
    return guarded([&] {
        need(path, "path");
        need(model, "model");
        const pyspec_model_params p =
            params == nullptr ? default_params() : read_struct(params, default_params(), "params");
        ModelOptions options;
        options.device        = p.device == nullptr ? "cpu" : p.device;
        options.use_mmap      = p.use_mmap;
        options.metadata_only = p.metadata_only;
        options.pack_weights  = p.pack_weights;
        options.kernels       = p.kernels == nullptr ? "auto" : p.kernels;
        auto handle           = std::make_unique<pyspec_model>();
        handle->model         = Model::load(path, options, job == nullptr ? nullptr : &job->job);
        *model                = handle.release();
    });
}

void pyspec_model_free(pyspec_model * model) {
    delete model;
}

pyspec_status pyspec_model_get_info(const pyspec_model * model, pyspec_model_info * info, size_t struct_size) {
    return guarded([&] {
        need(model, "model");
        const Model & m   = *model->model;
        const Hparams & h = m.hparams();
        pyspec_model_info out{};
        out.architecture   = h.arch.c_str();
        size_t n           = 0;
        const char * name  = pyspec_model_meta_str(model, "general.name", &n);
        out.name           = name == nullptr ? "" : name;
        out.n_vocab        = h.n_vocab;
        out.n_embd         = h.n_embd;
        out.n_layer        = h.n_layer;
        out.n_head         = h.n_head[0];
        out.n_head_kv      = h.n_head_kv[0];
        out.n_ff           = h.n_ff[0];
        out.n_ctx_train    = h.n_ctx_train;
        out.n_expert       = h.n_expert;
        out.n_expert_used  = h.n_expert_used;
        out.sliding_window = h.n_swa;
        out.n_params       = m.n_params();
        out.file_bytes     = m.file().file_bytes();
        out.weight_bytes   = m.file().weight_bytes();
        out.packed_bytes   = m.packed() != nullptr && m.has_weights() ? m.packed()->matrix_bytes() : 0;
        out.kernels        = m.kernels().name;
        write_struct(info, out, struct_size, "info");
    });
}

const char * pyspec_model_json(const pyspec_model * model) {
    return model == nullptr ? "" : model->model->json().c_str();
}

const char * pyspec_model_meta_str(const pyspec_model * model, const char * key, size_t * length) {
    if (model == nullptr || key == nullptr) {
        return nullptr;
    }
    const auto & metadata = model->model->file().metadata();
    const auto it         = metadata.find(std::string_view(key));
    if (it == metadata.end() || it->second.type != MetaType::string) {
        return nullptr;
    }
    if (length != nullptr) {
        *length = it->second.bytes.size();
    }
    return it->second.bytes.data();
}

pyspec_status pyspec_model_get_vocab(const pyspec_model * model, pyspec_vocab * vocab, size_t struct_size) {
    return guarded([&] {
        need(model, "model");
        const Vocabulary & v = vocabulary_of(model);
        pyspec_vocab out{};
        out.n_tokens         = v.n_tokens;
        out.kind             = v.kind.c_str();
        out.pre              = v.pre.c_str();
        out.text             = v.text.data();
        out.text_offset      = v.text_offset.data();
        out.scores           = v.scores.data();
        out.types            = v.types.data();
        out.n_merges         = v.n_merges;
        out.merges           = v.merges.data();
        out.merges_offset    = v.merges_offset.data();
        out.bos              = v.bos;
        out.eos              = v.eos;
        out.eot              = v.eot;
        out.eom              = v.eom;
        out.unk              = v.unk;
        out.sep              = v.sep;
        out.pad              = v.pad;
        out.mask             = v.mask;
        out.fim_pre          = v.fim_pre;
        out.fim_suf          = v.fim_suf;
        out.fim_mid          = v.fim_mid;
        out.fim_pad          = v.fim_pad;
        out.fim_rep          = v.fim_rep;
        out.fim_sep          = v.fim_sep;
        out.add_bos          = v.add_bos;
        out.add_eos          = v.add_eos;
        out.add_space_prefix = v.add_space_prefix;
        out.n_eog            = static_cast<int32_t>(v.eog.size());
        out.eog              = v.eog.data();
        write_struct(vocab, out, struct_size, "vocab");
    });
}

int32_t pyspec_token_piece(const pyspec_model * model, pyspec_token token, bool special, char * buf, int32_t cap) {
    int32_t length             = -1;
    const pyspec_status status = guarded([&] {
        need(model, "model");
        const Vocabulary & v = vocabulary_of(model);
        if (token < 0 || token >= v.n_tokens) {
            throw Error(PYSPEC_OPTION, format("token %d is outside the vocabulary of %d", token, v.n_tokens));
        }
        const std::string piece = v.piece(token, special);
        if (buf != nullptr && cap > 0) {
            std::memcpy(buf, piece.data(), std::min(piece.size(), static_cast<size_t>(cap)));
        }
        length = static_cast<int32_t>(piece.size());
    });
    return status == PYSPEC_OK ? length : -1;
}

bool pyspec_token_is_eog(const pyspec_model * model, pyspec_token token) {
    return model != nullptr && model->model->vocabulary() != nullptr && model->model->vocabulary()->is_eog(token);
}
