// Gives a family its weight tensors by name, with shapes and types checked, and notes which tensors nobody asked for.
#pragma once

#include "weights/model_file.h"

#include <initializer_list>
#include <set>
#include <string>
#include <vector>

namespace pyspec {

class TensorLoader {
public:
    // `meta` receives the tensor structs (no data); it must have room for every tensor of the file.
    TensorLoader(const ModelFile & file, ggml_context * meta);

    // A matrix or expert stack for ggml's own operations. Shape in ggml order {in, out[, experts]}. Throws FILE_FORMAT
    // when missing or of another shape, UNSUPPORTED when ggml cannot multiply its type.
    ggml_tensor * matrix(const std::string & name, std::initializer_list<int64_t> shape);
    // A matrix {in, out} or a stack {in, out, experts} that only graph/linear and graph/experts touch, so that it may
    // be packed (weights/packing.h). A tensor that is asked for both ways stays as it is.
    ggml_tensor * linear(const std::string & name, std::initializer_list<int64_t> shape);
    // nullptr when absent, checked like linear() when present.
    ggml_tensor * find_linear(const std::string & name, std::initializer_list<int64_t> shape);
    // A table whose rows graph/linear looks up; packed when it is also multiplied (a tied output matrix).
    ggml_tensor * table(const std::string & name, std::initializer_list<int64_t> shape);
    // Norm weights, biases, factors: must be F32.
    ggml_tensor * vector(const std::string & name, int64_t length);
    ggml_tensor * find_vector(const std::string & name, int64_t length);

    bool has(const std::string & name) const;
    // Tensors that belong to parts of the model that are not built (for example trailing prediction blocks).
    void ignore(const std::string & prefix);
    // Throws UNSUPPORTED naming the first tensors that nobody used: a file with unknown parts would be computed
    // wrongly.
    void check_all_used() const;

    struct Entry {
        ggml_tensor * tensor;
        const TensorInfo * info;
        bool linear; // multiplied by graph/linear or graph/experts
        bool ggml;   // used by ggml's own operations, which know the file's form only
    };
    const std::vector<Entry> & entries() const { return entries_; }

private:
    struct Wish {
        bool required = true;
        bool f32_only = false;
        bool linear   = false;
        bool ggml     = true;
    };
    ggml_tensor * take(const std::string & name, std::initializer_list<int64_t> shape, Wish wish);

    const ModelFile & file_;
    ggml_context * meta_;
    std::vector<Entry> entries_;
    std::set<std::string> used_;
};

} // namespace pyspec
