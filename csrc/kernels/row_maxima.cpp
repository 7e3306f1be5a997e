#include "kernels/row_maxima.h"

#include "support/row_blocks.h"

#include <algorithm>

namespace pyspec {

namespace {

void compute_maxima(ggml_tensor * dst, int, int, void * run) {
    const ggml_tensor * x = dst->src[0];
    static_cast<KernelRun *>(run)->for_each(ggml_nelements(dst), 16 * row_block, [&](int64_t i, int) {
        const int64_t row   = i / dst->ne[0];
        const int64_t block = i % dst->ne[0];
        const int64_t at    = block * row_block;
        const char * from   = static_cast<const char *>(x->data) + static_cast<size_t>(row) * x->nb[1];
        char * to           = static_cast<char *>(dst->data) + static_cast<size_t>(row) * dst->nb[1];
        reinterpret_cast<float *>(to)[block] =
            block_maximum(reinterpret_cast<const float *>(from) + at,
                          static_cast<int32_t>(std::min<int64_t>(row_block, x->ne[0] - at)));
    });
}

} // namespace

ggml_tensor * row_maxima(ggml_context * ctx, KernelRun * run, ggml_tensor * x) {
    ggml_tensor * args[] = {x};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, n_row_blocks(static_cast<int32_t>(x->ne[0])), x->ne[1], 1, 1, args, 1,
                          compute_maxima, 1, run);
}

} // namespace pyspec
