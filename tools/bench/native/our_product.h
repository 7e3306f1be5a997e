// The product of the library: its own graph node on its own threads.
#pragma once

#include "kernels/packed_matrix.h"
#include "kernels/product.h"

#include "ggml.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace pyspec::bench {

// Holds the turn of the threads: one at a time.
class OurProduct {
public:
    // weight type {n_in, n_out} times x f32 {n_in, n_columns} -> y f32 {n_out, n_columns}. x must outlive this. Throws
    // OUT_OF_MEMORY.
    OurProduct(ggml_type type, int64_t n_in, int64_t n_out, const float * x, int64_t n_columns, int n_threads);

    // Throws INTERNAL when the graph fails.
    void run(const PackedMatrix & weights);
    const std::vector<float> & y() const { return y_; }

private:
    struct Free {
        void operator()(ggml_context * ctx) const { ggml_free(ctx); }
        void operator()(ggml_threadpool * pool) const;
    };

    std::shared_ptr<ThreadPool> threads_;
    ThreadPool::Turn turn_;
    KernelRun run_;
    ProductPlan plan_;
    std::vector<float> y_;
    std::vector<uint8_t> scratch_;
    std::vector<uint8_t> work_;
    std::unique_ptr<ggml_context, Free> ctx_;
    std::unique_ptr<ggml_threadpool, Free> ggml_thread_;
    ggml_tensor * weight_ = nullptr;
    ggml_cgraph * graph_  = nullptr;
};

} // namespace pyspec::bench
