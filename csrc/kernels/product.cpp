#include "kernels/product.h"

#include "kernels/activation_rows.h"
#include "kernels/dot_tiles.h"

#include <algorithm>

namespace pyspec {

namespace {

constexpr int64_t max_values = 65536; // of a row, see dot_tiles_blocks32.cpp
// Weight rows of one panel: they stay in the first-level cache while all activation tiles pass by.
constexpr int64_t panel_rows = 16;

ActivationKind kind_of_type(ggml_type type) {
    if (dot_tile_blocks32(type) != nullptr) {
        return ActivationKind::blocks32;
    }
    return dot_tile_blocks256(type) != nullptr ? ActivationKind::blocks256 : ActivationKind::none;
}

void quantise_node(ggml_tensor * dst, int ith, int nth, void * kind_number) {
    const ggml_tensor * x     = dst->src[0];
    const ActivationKind kind = static_cast<ActivationKind>(reinterpret_cast<intptr_t>(kind_number));
    for (int64_t row = ith; row < dst->ne[1]; row += nth) {
        const char * from = static_cast<const char *>(x->data) + static_cast<size_t>(row) * x->nb[1];
        quantise_row(kind, reinterpret_cast<const float *>(from), static_cast<size_t>(x->ne[0]),
                     static_cast<char *>(dst->data) + static_cast<size_t>(row) * dst->nb[1]);
    }
}

// Output rows are split over threads in equal contiguous shares, never the sum.
void product_node(ggml_tensor * dst, int ith, int nth, void *) {
    const ggml_tensor * weight = dst->src[0];
    const ggml_tensor * x      = dst->src[1];
    const DotTile tile         = dot_tile(weight->type);
    const int64_t n_out        = dst->ne[0];
    const int64_t n_cols       = dst->ne[1];
    const size_t n             = static_cast<size_t>(weight->ne[0]);
    const int64_t n_share      = (n_out + nth - 1) / nth;
    const int64_t first        = std::min(n_out, ith * n_share);
    const int64_t last         = std::min(n_out, first + n_share);

    for (int64_t panel = first; panel < last; panel += panel_rows) {
        const int64_t panel_end = std::min(last, panel + panel_rows);
        for (int64_t column = 0; column < n_cols; column += max_tile_columns) {
            const int n_tile    = static_cast<int>(std::min<int64_t>(max_tile_columns, n_cols - column));
            const char * x_tile = static_cast<const char *>(x->data) + static_cast<size_t>(column) * x->nb[1];
            for (int64_t row = panel; row < panel_end; ++row) {
                float out[max_tile_columns];
                tile(static_cast<const char *>(weight->data) + static_cast<size_t>(row) * weight->nb[1], x_tile,
                     x->nb[1], n, n_tile, out);
                for (int c = 0; c < n_tile; ++c) {
                    char * to = static_cast<char *>(dst->data) + static_cast<size_t>(column + c) * dst->nb[1];
                    reinterpret_cast<float *>(to)[row] = out[c];
                }
            }
        }
    }
}

} // namespace

DotTile dot_tile(ggml_type type) {
    const DotTile tile = dot_tile_blocks32(type);
    return tile != nullptr ? tile : dot_tile_blocks256(type);
}

ActivationKind activation_kind(const ggml_tensor * weight) {
    return weight->ne[0] <= max_values ? kind_of_type(weight->type) : ActivationKind::none;
}

ggml_tensor * quantise_rows(ggml_context * ctx, ggml_tensor * x, ActivationKind kind) {
    ggml_tensor * args[] = {x};
    const int64_t bytes  = static_cast<int64_t>(row_bytes(kind, static_cast<size_t>(x->ne[0])));
    return ggml_custom_4d(ctx, GGML_TYPE_I8, bytes, x->ne[1], 1, 1, args, 1, quantise_node, GGML_N_TASKS_MAX,
                          reinterpret_cast<void *>(static_cast<intptr_t>(kind)));
}

ggml_tensor * quantised_product(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x) {
    ggml_tensor * args[] = {weight, x};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, weight->ne[1], x->ne[1], 1, 1, args, 2, product_node, GGML_N_TASKS_MAX,
                          nullptr);
}

} // namespace pyspec
