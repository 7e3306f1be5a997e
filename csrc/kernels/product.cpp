#include "kernels/product.h"

#include "kernels/activation_block.h"
#include "kernels/packed_matrix.h"

#include <algorithm>

namespace pyspec {

namespace {

// Quantised rows up to this size are made by every thread for itself, on its stack.
constexpr size_t max_quantised_by_thread = 16 * 1024;
// Panels of one pass over the columns: they stay in the second-level cache while all column tiles go by.
constexpr size_t panel_group_bytes = 512 * 1024;

// What a product node needs to know besides its sources: weight and bias of each matrix, then x, then the addend.
struct ProductPlan {
    int n_weights;
    bool quantises; // x holds floats: every thread quantises them for itself
    bool addend;
    bool biased[max_product_weights];

    // A node keeps one pointer for its function: the plan is small enough to be that pointer.
    void * pack() const {
        uintptr_t bits = static_cast<uintptr_t>(n_weights) | static_cast<uintptr_t>(quantises) << 4 |
                         static_cast<uintptr_t>(addend) << 5;
        for (int i = 0; i < n_weights; ++i) {
            bits |= static_cast<uintptr_t>(biased[i]) << (6 + i);
        }
        return reinterpret_cast<void *>(bits);
    }

    static ProductPlan unpack(void * packed) {
        const auto bits = reinterpret_cast<uintptr_t>(packed);
        ProductPlan plan{};
        plan.n_weights = static_cast<int>(bits & 15);
        plan.quantises = (bits >> 4 & 1) != 0;
        plan.addend    = (bits >> 5 & 1) != 0;
        for (int i = 0; i < plan.n_weights; ++i) {
            plan.biased[i] = (bits >> (6 + i) & 1) != 0;
        }
        return plan;
    }
};

const char * row_of(const ggml_tensor * t, int64_t row) {
    return static_cast<const char *>(t->data) + static_cast<size_t>(row) * t->nb[1];
}
const float * floats_of(const ggml_tensor * t, int64_t row) {
    return reinterpret_cast<const float *>(row_of(t, row));
}
size_t row_blocks(const ggml_tensor * x) {
    return static_cast<size_t>(x->ne[0]) / 32;
}

void quantise_node(ggml_tensor * dst, int ith, int nth, void *) {
    const ggml_tensor * x = dst->src[0];
    for (int64_t row = ith; row < dst->ne[1]; row += nth) {
        char * to = static_cast<char *>(dst->data) + static_cast<size_t>(row) * dst->nb[1];
        quantise_row(floats_of(x, row), static_cast<size_t>(x->ne[0]), reinterpret_cast<ActivationBlock *>(to));
    }
}

// Where the results of one matrix go: row r of the matrix is element dst_row + r of each column.
struct Target {
    ggml_tensor * dst;
    int64_t dst_row;
    const float * bias;         // of the matrix, or null
    const ggml_tensor * addend; // like dst, or null
};

// The 16 results of a panel for some columns, with bias and addend.
void store(const Target & to, const PackedMatrix & w, int64_t panel, int64_t column, int n_columns, const float * out) {
    const int64_t first = panel * panel_rows;
    const int64_t n     = std::min(panel_rows, w.n_out - first);
    for (int c = 0; c < n_columns; ++c, out += panel_rows) {
        char * dst_column   = static_cast<char *>(to.dst->data) + static_cast<size_t>(column + c) * to.dst->nb[1];
        float * y           = reinterpret_cast<float *>(dst_column) + to.dst_row + first;
        const float * plus  = to.bias == nullptr ? nullptr : to.bias + first;
        const float * other = to.addend == nullptr ? nullptr : floats_of(to.addend, column + c) + to.dst_row + first;
        for (int64_t r = 0; r < n; ++r) {
            float value = out[r];
            if (plus != nullptr) {
                value += plus[r];
            }
            if (other != nullptr) {
                value += other[r];
            }
            y[r] = value;
        }
    }
}

void multiply(const Target & to, const PackedMatrix & w, const ActivationBlock * x, size_t x_stride, int64_t first,
              int64_t last) {
    const int64_t n_columns = to.dst->ne[1];
    const int64_t n_tiles   = (n_columns + w.max_columns - 1) / w.max_columns;
    const int64_t group     = std::max<int64_t>(1, static_cast<int64_t>(panel_group_bytes / w.layout.bytes));
    for (int64_t group_first = first; group_first < last; group_first += group) {
        const int64_t group_last = std::min(last, group_first + group);
        for (int64_t t = 0; t < n_tiles; ++t) { // tiles of nearly equal width
            const int64_t column = n_columns * t / n_tiles;
            const int n          = static_cast<int>(n_columns * (t + 1) / n_tiles - column);
            for (int64_t panel = group_first; panel < group_last; ++panel) {
                alignas(64) float out[panel_rows * max_tile_columns];
                const uint8_t * data = w.data + static_cast<size_t>(panel) * w.layout.bytes;
                w.tile({data + w.layout.quants_at, data + w.layout.scales_at, data + w.layout.supers_at,
                        w.layout.n_blocks, x + static_cast<size_t>(column) * x_stride, x_stride, n, out});
                store(to, w, panel, column, n, out);
            }
        }
    }
}

// Panels are split over threads in equal contiguous shares, never the sum.
void product_node(ggml_tensor * dst, int ith, int nth, void * packed) {
    const ProductPlan plan     = ProductPlan::unpack(packed);
    const ggml_tensor * x      = dst->src[2 * plan.n_weights];
    const ggml_tensor * addend = plan.addend ? dst->src[2 * plan.n_weights + 1] : nullptr;

    alignas(64) char quantised[max_quantised_by_thread];
    const ActivationBlock * rows = static_cast<const ActivationBlock *>(x->data);
    size_t stride                = x->nb[1] / sizeof(ActivationBlock);
    if (plan.quantises) {
        stride                 = row_blocks(x);
        ActivationBlock * made = reinterpret_cast<ActivationBlock *>(quantised);
        for (int64_t row = 0; row < x->ne[1]; ++row) {
            quantise_row(floats_of(x, row), static_cast<size_t>(x->ne[0]), made + static_cast<size_t>(row) * stride);
        }
        rows = made;
    }
    int64_t total = 0; // panels of all matrices
    for (int i = 0; i < plan.n_weights; ++i) {
        total += n_panels(packed_of(dst->src[2 * i])->n_out);
    }
    const int64_t first = total * ith / nth;
    const int64_t last  = total * (ith + 1) / nth;
    Target to{dst, 0, nullptr, addend};
    int64_t start = 0; // first panel of the matrix
    for (int i = 0; i < plan.n_weights; ++i) {
        const PackedMatrix & w = *packed_of(dst->src[2 * i]);
        const int64_t end      = start + n_panels(w.n_out);
        to.bias                = plan.biased[i] ? static_cast<const float *>(dst->src[2 * i + 1]->data) : nullptr;
        multiply(to, w, rows, stride, std::max(first, start) - start, std::min(last, end) - start);
        start = end;
        to.dst_row += w.n_out;
    }
}

void rows_node(ggml_tensor * dst, int ith, int nth, void *) {
    const PackedMatrix & table = *packed_of(dst->src[0]);
    const int32_t * ids        = static_cast<const int32_t *>(dst->src[1]->data);
    const auto to_float        = ggml_get_type_traits(table.type)->to_float;
    const int64_t n_values     = ggml_blck_size(table.type);
    alignas(64) uint8_t block[max_gguf_block];
    for (int64_t i = ith; i < dst->ne[1]; i += nth) {
        const uint8_t * panel = table.data + static_cast<size_t>(ids[i] / panel_rows) * table.layout.bytes;
        float * y = reinterpret_cast<float *>(static_cast<char *>(dst->data) + static_cast<size_t>(i) * dst->nb[1]);
        for (int64_t b = 0; b < table.n_in / n_values; ++b) {
            unpack_block(table.type, table.layout, panel, ids[i] % panel_rows, b, block);
            to_float(block, y + b * n_values, n_values);
        }
    }
}

} // namespace

ggml_tensor * packed_product(ggml_context * ctx, const ProductWeight * weights, int n_weights, ggml_tensor * x,
                             ggml_tensor * addend) {
    ProductPlan plan{};
    plan.n_weights          = n_weights;
    plan.addend             = addend != nullptr;
    const int64_t quantised = static_cast<int64_t>(row_blocks(x) * sizeof(ActivationBlock));
    plan.quantises          = quantised * x->ne[1] <= static_cast<int64_t>(max_quantised_by_thread);

    ggml_tensor * args[2 * max_product_weights + 2];
    int n_args    = 0;
    int64_t n_out = 0;
    for (int i = 0; i < n_weights; ++i) {
        plan.biased[i] = weights[i].bias != nullptr;
        args[n_args++] = weights[i].weight;
        args[n_args++] = plan.biased[i] ? weights[i].bias : weights[i].weight; // sources may not be null
        n_out += weights[i].weight->ne[1];
    }
    if (!plan.quantises) {
        ggml_tensor * floats[] = {x};
        x = ggml_custom_4d(ctx, GGML_TYPE_I8, quantised, x->ne[1], 1, 1, floats, 1, quantise_node, GGML_N_TASKS_MAX,
                           nullptr);
    }
    args[n_args++] = x;
    if (addend != nullptr) {
        args[n_args++] = addend;
    }
    return ggml_custom_4d(ctx, GGML_TYPE_F32, n_out, x->ne[1], 1, 1, args, n_args, product_node, GGML_N_TASKS_MAX,
                          plan.pack());
}

ggml_tensor * packed_rows(ggml_context * ctx, ggml_tensor * table, ggml_tensor * ids) {
    ggml_tensor * args[] = {table, ids};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, table->ne[0], ids->ne[0], 1, 1, args, 2, rows_node, GGML_N_TASKS_MAX,
                          nullptr);
}

} // namespace pyspec
