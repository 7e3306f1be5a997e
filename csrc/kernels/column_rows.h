// Rows of activations in the form that a matrix takes: the first half of every product node.
#pragma once

#include "kernels/kernel_run.h"
#include "kernels/weight_matrix.h"

#include "ggml.h"

namespace pyspec {

struct ConvertedRows {
    const char * data;
    size_t stride; // bytes
};

// The rows of x f32 {in, n} in that form, made in scratch unless they can be used as they are.
inline ConvertedRows convert_rows(KernelRun & run, const ColumnForm & form, const ggml_tensor * x, void * scratch) {
    if (form.kind == ColumnForm::Kind::floats) {
        return {static_cast<const char *>(x->data), x->nb[1]};
    }
    const int64_t n_in = x->ne[0];
    const size_t bytes = form.bytes(n_in);
    run.for_each(x->ne[1], 64 * n_in, [&](int64_t row, int) {
        const char * from = static_cast<const char *>(x->data) + static_cast<size_t>(row) * x->nb[1];
        form.convert(reinterpret_cast<const float *>(from), n_in,
                     static_cast<char *>(scratch) + static_cast<size_t>(row) * bytes);
    });
    return {static_cast<const char *>(scratch), bytes};
}

// How a product is shared out: chunks are some panels times some columns.
struct ProductChunks {
    int64_t panels;
    int64_t columns;
};
inline ProductChunks product_chunks(int64_t n_panels, int64_t panel_macs, size_t panel_bytes, int64_t n_columns,
                                    int n_threads) {
    // All columns, unless one panel with all of them takes too long.
    const int64_t columns = std::clamp<int64_t>(KernelRun::most_cost / panel_macs, 1, n_columns);
    // Unpacking a panel costs about as much as four columns.
    const int64_t cost  = panel_macs * (columns + 4);
    const int64_t least = (KernelRun::least_cost + cost - 1) / cost;
    // Several chunks for each thread, so that all end at about the same time.
    const int64_t share = n_panels / (8 * n_threads);
    // Not more than what stays in the second-level cache while many columns go by, or takes too long.
    const int64_t cached = static_cast<int64_t>(512 * 1024 / std::max<size_t>(panel_bytes, 1));
    const int64_t most   = std::min(cached, KernelRun::most_cost / cost);
    return {std::clamp<int64_t>(std::min(std::max(share, least), most), 1, n_panels), columns};
}

} // namespace pyspec
