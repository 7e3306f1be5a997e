#include "kernels/product.h"

#include "kernels/column_rows.h"

#include <algorithm>

namespace pyspec {

namespace {

// Sources of the node: weight and bias of each matrix, then x, scratch and addend.
ggml_tensor * weight_of(const ggml_tensor * dst, int i) {
    return dst->src[2 * i];
}

// The first matrix that takes its columns in the form of matrix i.
template <typename WeightOf> int first_of_form(const WeightOf & weight, int i) {
    int known = 0;
    while (!(column_form(weight(known)) == column_form(weight(i)))) {
        ++known;
    }
    return known;
}

// Of n converted columns; 0 when they can be used as they are.
size_t column_bytes(const ggml_tensor * weight, int64_t n) {
    const ColumnForm form = column_form(weight);
    return form.kind == ColumnForm::Kind::floats ? 0 : form.bytes(weight->ne[0]) * static_cast<size_t>(n);
}

void compute_product(ggml_tensor * dst, int, int, void * data) {
    const ProductPlan & plan   = *static_cast<const ProductPlan *>(data);
    const ggml_tensor * x      = dst->src[2 * plan.n_weights];
    char * scratch             = static_cast<char *>(dst->src[2 * plan.n_weights + 1]->data);
    const ggml_tensor * addend = plan.addend ? dst->src[2 * plan.n_weights + 2] : nullptr;

    WeightMatrix matrices[max_product_weights];
    ProductTarget targets[max_product_weights];
    ConvertedRows rows[max_product_weights];
    int64_t starts[max_product_weights + 1]; // first panel of each matrix
    int64_t dst_row = 0;
    starts[0]       = 0;
    for (int i = 0; i < plan.n_weights; ++i) {
        matrices[i]     = WeightMatrix::of(weight_of(dst, i));
        const int known = first_of_form([&](int j) { return weight_of(dst, j); }, i);
        if (known < i) {
            rows[i] = rows[known];
        } else {
            rows[i] = convert_rows(*plan.run, column_form(weight_of(dst, i)), x, scratch);
            scratch += column_bytes(weight_of(dst, i), x->ne[1]);
        }
        count(matrices[i].packed != nullptr ? plan.run->counters.packed : plan.run->counters.plain, matrices[i].type);
        starts[i + 1]    = starts[i] + matrices[i].n_panels();
        ProductTarget to = {};
        to.dst           = static_cast<float *>(dst->data) + dst_row;
        to.dst_stride    = dst->nb[1] / sizeof(float);
        to.bias          = plan.biased[i] ? static_cast<const float *>(dst->src[2 * i + 1]->data) : nullptr;
        if (addend != nullptr) {
            to.plus        = static_cast<const float *>(addend->data) + dst_row;
            to.plus_stride = addend->nb[1] / sizeof(float);
        }
        targets[i] = to;
        dst_row += matrices[i].n_out;
    }
    const int64_t n_panels   = starts[plan.n_weights];
    const int64_t n_columns  = x->ne[1];
    const int64_t panel_macs = x->ne[0] * panel_rows;
    const ProductChunks size = product_chunks(n_panels, panel_macs, ggml_row_size(matrices[0].type, panel_macs),
                                              n_columns, plan.run->threads->n_threads());
    const int64_t n_chunks   = (n_panels + size.panels - 1) / size.panels; // of some columns
    const int64_t n_parts    = (n_columns + size.columns - 1) / size.columns;
    plan.run->threads->run(n_chunks * n_parts, [&](int64_t chunk, int) {
        const int64_t first  = chunk % n_chunks * size.panels;
        const int64_t last   = std::min(n_panels, first + size.panels);
        const int64_t column = chunk / n_chunks * size.columns;
        const int64_t n      = std::min(n_columns - column, size.columns);
        for (int i = 0; i < plan.n_weights; ++i) {
            const int64_t from  = std::max(first, starts[i]) - starts[i];
            const int64_t until = std::min(last, starts[i + 1]) - starts[i];
            multiply(matrices[i], from, until, rows[i].data + static_cast<size_t>(column) * rows[i].stride,
                     rows[i].stride, n, targets[i].from_column(column));
        }
    });
}

void look_up_rows(ggml_tensor * dst, int, int, void * data) {
    const ggml_tensor * table = dst->src[0];
    const int32_t * ids       = static_cast<const int32_t *>(dst->src[1]->data);
    const PackedMatrix * m    = packed_of(table);
    const auto to_float       = ggml_get_type_traits(table->type)->to_float; // null for f32
    const int64_t n_values    = m == nullptr ? table->ne[0] : block_values(table->type);
    static_cast<KernelRun *>(data)->for_each(dst->ne[1], 8 * table->ne[0], [&](int64_t i, int) {
        float * y = reinterpret_cast<float *>(static_cast<char *>(dst->data) + static_cast<size_t>(i) * dst->nb[1]);
        alignas(64) uint8_t block[max_gguf_block];
        for (int64_t at = 0; at < table->ne[0]; at += n_values) {
            const void * from = block;
            if (m == nullptr) {
                from = static_cast<const char *>(table->data) + static_cast<size_t>(ids[i]) * table->nb[1];
            } else {
                const uint8_t * panel = m->matrix(0) + static_cast<size_t>(ids[i] / panel_rows) * m->layout.bytes;
                unpack_block(table->type, m->layout, panel, ids[i] % panel_rows, at / n_values, block);
            }
            if (to_float == nullptr) {
                std::copy_n(static_cast<const float *>(from), n_values, y + at);
            } else {
                to_float(from, y + at, n_values);
            }
        }
    });
}

} // namespace

ProductPlan product_plan(KernelRun * run, const ProductWeight * weights, int n_weights, bool addend) {
    ProductPlan plan;
    plan.run       = run;
    plan.n_weights = n_weights;
    plan.addend    = addend;
    for (int i = 0; i < n_weights; ++i) {
        plan.biased[i] = weights[i].bias != nullptr;
    }
    return plan;
}

size_t product_scratch_bytes(const ProductWeight * weights, int n_weights, int64_t n) {
    size_t bytes = 0;
    for (int i = 0; i < n_weights; ++i) {
        if (first_of_form([&](int j) { return weights[j].weight; }, i) == i) {
            bytes += column_bytes(weights[i].weight, n);
        }
    }
    return bytes;
}

ggml_tensor * product_node(ggml_context * ctx, const ProductPlan * plan, const ProductWeight * weights, ggml_tensor * x,
                           ggml_tensor * addend, ggml_tensor * scratch) {
    ggml_tensor * args[2 * max_product_weights + 3];
    int n_args    = 0;
    int64_t n_out = 0;
    for (int i = 0; i < plan->n_weights; ++i) {
        args[n_args++] = weights[i].weight;
        args[n_args++] = plan->biased[i] ? weights[i].bias : weights[i].weight; // sources may not be null
        n_out += weights[i].weight->ne[1];
    }
    args[n_args++] = x;
    args[n_args++] = scratch;
    if (addend != nullptr) {
        args[n_args++] = addend;
    }
    return ggml_custom_4d(ctx, GGML_TYPE_F32, n_out, x->ne[1], 1, 1, args, n_args, compute_product, 1,
                          const_cast<ProductPlan *>(plan)); // only read
}

ggml_tensor * rows_node(ggml_context * ctx, KernelRun * run, ggml_tensor * table, ggml_tensor * ids) {
    ggml_tensor * args[] = {table, ids};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, table->ne[0], ids->ne[0], 1, 1, args, 2, look_up_rows, 1, run);
}

} // namespace pyspec
