// The same product by ggml: a graph of one node, on threads that stay awake between runs.
#pragma once

#include "ggml-cpu.h"
#include "ggml.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace pyspec::bench {

class GgmlProduct {
public:
    // weight type {n_in, n_out} times x f32 {n_in, n_columns} -> y f32 {n_out, n_columns}. x must outlive this. Throws
    // OUT_OF_MEMORY.
    GgmlProduct(ggml_type type, int64_t n_in, int64_t n_out, const float * x, int64_t n_columns, int n_threads);

    // weights: the matrix as it lies in a GGUF file. Throws INTERNAL when ggml fails.
    void run(const void * weights);
    const std::vector<float> & y() const { return y_; }

    // Threads sleep from rest() to wake(), so that they take no time from what is measured in between.
    void rest() { ggml_threadpool_pause(pool_.get()); }
    void wake() { ggml_threadpool_resume(pool_.get()); }

private:
    struct Free {
        void operator()(ggml_context * ctx) const { ggml_free(ctx); }
        void operator()(ggml_threadpool * pool) const { ggml_threadpool_free(pool); }
    };

    std::vector<float> y_;
    std::vector<uint8_t> work_;
    std::unique_ptr<ggml_context, Free> ctx_;
    std::unique_ptr<ggml_threadpool, Free> pool_;
    ggml_tensor * weight_ = nullptr;
    ggml_cgraph * graph_  = nullptr;
    ggml_cplan plan_{};
};

} // namespace pyspec::bench
