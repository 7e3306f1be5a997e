#include "our_product.h"

#include "support/error.h"

#include "ggml-cpu.h"

#include <algorithm>

namespace pyspec::bench {

namespace {

constexpr size_t graph_size = 16; // a node and its leaves fit

} // namespace

void OurProduct::Free::operator()(ggml_threadpool * pool) const {
    ggml_threadpool_free(pool);
}

OurProduct::OurProduct(ggml_type type, int64_t n_in, int64_t n_out, const float * x, int64_t n_columns, int n_threads)
    : threads_(ThreadPool::get(n_threads)), turn_(*threads_, nullptr), y_(static_cast<size_t>(n_out * n_columns)) {
    ctx_.reset(ggml_init({4 * ggml_tensor_overhead() + ggml_graph_overhead_custom(graph_size, false), nullptr, true}));
    ggml_threadpool_params params = ggml_threadpool_params_default(1);
    ggml_thread_.reset(ggml_threadpool_new(&params));
    if (ctx_ == nullptr || ggml_thread_ == nullptr) {
        throw Error(PYSPEC_OUT_OF_MEMORY, "cannot reserve the graph of a product");
    }
    run_.threads        = threads_.get();
    weight_             = ggml_new_tensor_2d(ctx_.get(), type, n_in, n_out);
    ggml_tensor * input = ggml_new_tensor_2d(ctx_.get(), GGML_TYPE_F32, n_in, n_columns);
    input->data         = const_cast<float *>(x);
    // Room for the columns in any form; which one the node takes is known with the weights.
    scratch_.resize(static_cast<size_t>(n_in * n_columns) * sizeof(float) + 64);
    ggml_tensor * scratch = ggml_new_tensor_1d(ctx_.get(), GGML_TYPE_I8, static_cast<int64_t>(scratch_.size()));
    scratch->data         = scratch_.data();
    const ProductWeight weight{weight_, nullptr};
    plan_           = product_plan(&run_, &weight, 1, false);
    ggml_tensor * y = product_node(ctx_.get(), &plan_, &weight, input, nullptr, scratch);
    y->data         = y_.data();
    graph_          = ggml_new_graph_custom(ctx_.get(), graph_size, false);
    ggml_build_forward_expand(graph_, y);
}

void OurProduct::run(const PackedMatrix & weights) {
    weight_->extra  = const_cast<PackedMatrix *>(&weights); // only read
    ggml_cplan plan = ggml_graph_plan(graph_, 1, ggml_thread_.get());
    work_.resize(std::max(work_.size(), plan.work_size));
    plan.work_data = work_.data();
    if (ggml_graph_compute(graph_, &plan) != GGML_STATUS_SUCCESS) {
        throw Error(PYSPEC_INTERNAL, "the product could not be computed");
    }
}

} // namespace pyspec::bench
