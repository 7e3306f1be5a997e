#include "kernels/row_maxima.h"

#include "support/row_blocks.h"

#include <algorithm>

namespace pyspec {

namespace {

void maxima_node(ggml_tensor * dst, int ith, int nth, void *) {
    const ggml_tensor * x = dst->src[0];
    const int64_t n       = dst->ne[0];
    // The same shares as those of the product that made x: every thread reads what lies in its own cache.
    const int64_t first = n * ith / nth;
    const int64_t last  = n * (ith + 1) / nth;
    for (int64_t row = 0; row < dst->ne[1]; ++row) {
        const char * from = static_cast<const char *>(x->data) + static_cast<size_t>(row) * x->nb[1];
        char * to         = static_cast<char *>(dst->data) + static_cast<size_t>(row) * dst->nb[1];
        for (int64_t block = first; block < last; ++block) {
            const int64_t at = block * row_block;
            reinterpret_cast<float *>(to)[block] =
                block_maximum(reinterpret_cast<const float *>(from) + at,
                              static_cast<int32_t>(std::min<int64_t>(row_block, x->ne[0] - at)));
        }
    }
}

} // namespace

ggml_tensor * row_maxima(ggml_context * ctx, ggml_tensor * x) {
    ggml_tensor * args[] = {x};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, n_row_blocks(static_cast<int32_t>(x->ne[0])), x->ne[1], 1, 1, args, 1,
                          maxima_node, GGML_N_TASKS_MAX, nullptr);
}

} // namespace pyspec
