#include "ggml_product.h"

#include "support/error.h"

namespace pyspec::bench {

namespace {

constexpr size_t graph_size = 16; // a node and its two leaves fit

} // namespace

GgmlProduct::GgmlProduct(ggml_type type, int64_t n_in, int64_t n_out, const float * x, int64_t n_columns, int n_threads)
    : y_(static_cast<size_t>(n_out * n_columns)) {
    ctx_.reset(ggml_init({3 * ggml_tensor_overhead() + ggml_graph_overhead_custom(graph_size, false), nullptr, true}));
    ggml_threadpool_params params = ggml_threadpool_params_default(n_threads);
    params.paused                 = true;
    pool_.reset(ggml_threadpool_new(&params));
    if (ctx_ == nullptr || pool_ == nullptr) {
        throw Error(PYSPEC_OUT_OF_MEMORY, format("ggml cannot start %d threads", n_threads));
    }
    weight_             = ggml_new_tensor_2d(ctx_.get(), type, n_in, n_out);
    ggml_tensor * input = ggml_new_tensor_2d(ctx_.get(), GGML_TYPE_F32, n_in, n_columns);
    input->data         = const_cast<float *>(x);
    ggml_tensor * y     = ggml_mul_mat(ctx_.get(), weight_, input);
    y->data             = y_.data();
    graph_              = ggml_new_graph_custom(ctx_.get(), graph_size, false);
    ggml_build_forward_expand(graph_, y);
    plan_ = ggml_graph_plan(graph_, n_threads, pool_.get());
    work_.resize(plan_.work_size);
    plan_.work_data = work_.data();
}

void GgmlProduct::run(const void * weights) {
    weight_->data = const_cast<void *>(weights);
    if (ggml_graph_compute(graph_, &plan_) != GGML_STATUS_SUCCESS) {
        throw Error(PYSPEC_INTERNAL, "ggml could not compute its product");
    }
}

} // namespace pyspec::bench
