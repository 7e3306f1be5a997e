#include "kernels/top_k.h"

namespace pyspec {

namespace {

// Selection by repeated maximum: k is the number of experts of a token, so small that nothing cleverer pays.
void compute_top_k(ggml_tensor * dst, int, int, void * run) {
    const ggml_tensor * x = dst->src[0];
    const int64_t n       = x->ne[0];
    const int64_t k       = dst->ne[0];
    static_cast<KernelRun *>(run)->for_each(dst->ne[1], 20 * n * k * k, [&](int64_t row, int) {
        const float * values =
            reinterpret_cast<const float *>(static_cast<const char *>(x->data) + static_cast<size_t>(row) * x->nb[1]);
        int32_t * ids =
            reinterpret_cast<int32_t *>(static_cast<char *>(dst->data) + static_cast<size_t>(row) * dst->nb[1]);
        for (int64_t rank = 0; rank < k; ++rank) {
            int32_t best = -1;
            for (int32_t i = 0; i < n; ++i) {
                bool taken = false;
                for (int64_t j = 0; j < rank; ++j) {
                    taken = taken || ids[j] == i;
                }
                if (!taken && (best < 0 || values[i] > values[best])) {
                    best = i;
                }
            }
            ids[rank] = best;
        }
    });
}

} // namespace

ggml_tensor * top_k(ggml_context * ctx, KernelRun * run, ggml_tensor * x, int32_t k) {
    ggml_tensor * args[] = {x};
    return ggml_custom_4d(ctx, GGML_TYPE_I32, k, x->ne[1], 1, 1, args, 1, compute_top_k, 1, run);
}

} // namespace pyspec
