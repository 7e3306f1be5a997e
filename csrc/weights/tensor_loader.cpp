#include "weights/tensor_loader.h"

#include "ggml-cpu.h"

namespace pyspec {

namespace {

std::string shape_text(const int64_t * ne, size_t n) {
    std::string text = "{";
    for (size_t i = 0; i < n; ++i) {
        text += (i == 0 ? "" : ", ") + std::to_string(ne[i]);
    }
    return text + "}";
}

} // namespace

TensorLoader::TensorLoader(const ModelFile & file, ggml_context * meta) : file_(file), meta_(meta) {}

ggml_tensor * TensorLoader::matrix(const std::string & name, std::initializer_list<int64_t> shape) {
    return take(name, shape, {});
}

ggml_tensor * TensorLoader::linear(const std::string & name, std::initializer_list<int64_t> shape) {
    return take(name, shape, {true, false, true, false});
}

ggml_tensor * TensorLoader::find_linear(const std::string & name, std::initializer_list<int64_t> shape) {
    return take(name, shape, {false, false, true, false});
}

ggml_tensor * TensorLoader::table(const std::string & name, std::initializer_list<int64_t> shape) {
    return take(name, shape, {true, false, false, false});
}

ggml_tensor * TensorLoader::vector(const std::string & name, int64_t length) {
    return take(name, {length}, {true, true, false, true});
}

ggml_tensor * TensorLoader::find_vector(const std::string & name, int64_t length) {
    return take(name, {length}, {false, true, false, true});
}

bool TensorLoader::has(const std::string & name) const {
    return file_.find_tensor(name) != nullptr;
}

void TensorLoader::ignore(const std::string & prefix) {
    for (const TensorInfo & info : file_.tensors()) {
        if (info.name.compare(0, prefix.size(), prefix) == 0) {
            used_.insert(info.name);
        }
    }
}

void TensorLoader::check_all_used() const {
    std::string names;
    int n_unused = 0;
    for (const TensorInfo & info : file_.tensors()) {
        if (used_.count(info.name) == 0) {
            if (++n_unused <= 3) {
                names += (names.empty() ? "" : ", ") + info.name;
            }
        }
    }
    if (n_unused > 0) {
        throw Error(PYSPEC_UNSUPPORTED,
                    format("%s: %d tensor(s) are not part of this architecture as pyspec knows it (%s%s); "
                           "computing without them would give wrong text",
                           file_.path().c_str(), n_unused, names.c_str(), n_unused > 3 ? ", ..." : ""));
    }
}

ggml_tensor * TensorLoader::take(const std::string & name, std::initializer_list<int64_t> shape, Wish wish) {
    const TensorInfo * info = file_.find_tensor(name);
    if (info == nullptr) {
        if (wish.required) {
            throw Error(PYSPEC_FILE_FORMAT, format("%s: tensor %s of shape %s is missing", file_.path().c_str(),
                                                   name.c_str(), shape_text(shape.begin(), shape.size()).c_str()));
        }
        return nullptr;
    }
    int64_t want[4] = {1, 1, 1, 1};
    size_t i        = 0;
    for (int64_t n : shape) {
        want[i++] = n;
    }
    for (int d = 0; d < 4; ++d) {
        if (info->ne[d] != want[d]) {
            throw Error(PYSPEC_FILE_FORMAT,
                        format("%s: tensor %s has shape %s, expected %s", file_.path().c_str(), name.c_str(),
                               shape_text(info->ne, static_cast<size_t>(info->n_dims)).c_str(),
                               shape_text(shape.begin(), shape.size()).c_str()));
        }
    }
    if (wish.f32_only && info->type != GGML_TYPE_F32) {
        throw Error(PYSPEC_UNSUPPORTED, format("%s: tensor %s is %s, expected f32", file_.path().c_str(), name.c_str(),
                                               ggml_type_name(info->type)));
    }
    if (ggml_get_type_traits_cpu(info->type)->vec_dot == nullptr) {
        throw Error(PYSPEC_UNSUPPORTED, format("%s: tensor %s has type %s, which cannot be multiplied",
                                               file_.path().c_str(), name.c_str(), ggml_type_name(info->type)));
    }
    for (Entry & entry : entries_) {
        if (entry.info == info) {
            entry.linear = entry.linear || wish.linear;
            entry.ggml   = entry.ggml || wish.ggml;
            return entry.tensor; // a tied tensor asked for twice
        }
    }
    ggml_tensor * tensor = ggml_new_tensor(meta_, info->type, info->n_dims, info->ne);
    ggml_set_name(tensor, name.c_str());
    entries_.push_back({tensor, info, wish.linear, wish.ggml});
    used_.insert(name);
    return tensor;
}

} // namespace pyspec
