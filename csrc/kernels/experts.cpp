#include "kernels/experts.h"

#include "kernels/column_rows.h"

#include <algorithm>
#include <cstring>

namespace pyspec {

namespace {

// What an order tensor holds, one array after the other.
struct Order {
    int32_t * pairs;     // {n_pairs}: token * n_used + rank, sorted
    int32_t * places;    // {n_pairs}: where that pair lies in the sorted order
    int32_t * first;     // {n_expert + 1}: of each expert's pairs
    int32_t * experts;   // {n_expert}: those that have pairs
    int32_t * n_experts; // how many
};
int64_t order_length(int64_t n_pairs, int32_t n_expert) {
    return 2 * n_pairs + 2 * int64_t{n_expert} + 2;
}
Order order_of(const ggml_tensor * tensor, int64_t n_pairs, int32_t n_expert) {
    Order o;
    o.pairs     = static_cast<int32_t *>(tensor->data);
    o.places    = o.pairs + n_pairs;
    o.first     = o.places + n_pairs;
    o.experts   = o.first + n_expert + 1;
    o.n_experts = o.experts + n_expert;
    return o;
}

void compute_order(ggml_tensor * dst, int, int, void * data) {
    const ExpertPlan & plan = *static_cast<const ExpertPlan *>(data);
    const ggml_tensor * ids = dst->src[0];
    const int64_t n_pairs   = ids->ne[0] * ids->ne[1];
    const Order o           = order_of(dst, n_pairs, plan.n_expert);
    const auto expert_of    = [&](int64_t pair) {
        const char * row = static_cast<const char *>(ids->data) + static_cast<size_t>(pair / plan.n_used) * ids->nb[1];
        return reinterpret_cast<const int32_t *>(row)[pair % plan.n_used];
    };
    std::fill(o.first, o.first + plan.n_expert + 1, 0);
    for (int64_t pair = 0; pair < n_pairs; ++pair) {
        ++o.first[expert_of(pair) + 1];
    }
    *o.n_experts = 0;
    for (int32_t e = 0; e < plan.n_expert; ++e) {
        if (o.first[e + 1] > 0) {
            o.experts[(*o.n_experts)++] = e;
        }
        o.first[e + 1] += o.first[e];
    }
    for (int64_t pair = 0; pair < n_pairs; ++pair) { // `first` moves up while an expert's places are given out
        const int32_t place = o.first[expert_of(pair)]++;
        o.pairs[place]      = static_cast<int32_t>(pair);
        o.places[pair]      = place;
    }
    std::copy_backward(o.first, o.first + plan.n_expert, o.first + plan.n_expert + 1);
    o.first[0] = 0;
}

// The columns of all pairs in the sorted order, in the form that the weights take.
ConvertedRows sorted_columns(const ExpertPlan & plan, const ColumnForm & form, const ggml_tensor * x,
                             const int32_t * pairs, int64_t n_pairs, char * scratch) {
    if (plan.rows_of_pairs) {
        return convert_rows(*plan.run, form, x, scratch);
    }
    const size_t bytes       = form.bytes(x->ne[0]);
    const ConvertedRows rows = convert_rows(*plan.run, form, x, scratch + static_cast<size_t>(n_pairs) * bytes);
    plan.run->for_each(n_pairs, x->ne[0], [&](int64_t place, int) {
        std::memcpy(scratch + static_cast<size_t>(place) * bytes,
                    rows.data + static_cast<size_t>(pairs[place] / plan.n_used) * rows.stride,
                    std::min(bytes, rows.stride));
    });
    return {scratch, bytes};
}

void compute_product(ggml_tensor * dst, int, int, void * data) {
    const ExpertPlan & plan  = *static_cast<const ExpertPlan *>(data);
    ggml_tensor * const * w  = dst->src;
    const ggml_tensor * x    = dst->src[plan.n_weights];
    const int64_t n_pairs    = dst->ne[1];
    const Order order        = order_of(dst->src[plan.n_weights + 1], n_pairs, plan.n_expert);
    char * scratch           = static_cast<char *>(dst->src[plan.n_weights + 2]->data);
    const ConvertedRows rows = sorted_columns(plan, column_form(w[0]), x, order.pairs, n_pairs, scratch);

    int64_t panels_of_expert = 0;
    for (int i = 0; i < plan.n_weights; ++i) {
        panels_of_expert += n_panels(w[i]->ne[1]);
        KernelCounters & counters = plan.run->counters;
        count(packed_of(w[i]) != nullptr ? counters.packed_experts : counters.plain_experts, w[i]->type);
    }
    const int64_t panel_macs = x->ne[0] * panel_rows;
    const ProductChunks size =
        product_chunks(panels_of_expert, panel_macs, ggml_row_size(w[0]->type, panel_macs),
                       std::max<int64_t>(1, n_pairs / *order.n_experts), plan.run->threads->n_threads());
    const int64_t at_once  = size.panels;                                // with all columns of an expert: they are few
    const int64_t n_chunks = (panels_of_expert + at_once - 1) / at_once; // of an expert
    plan.run->threads->run(n_chunks * *order.n_experts, [&](int64_t chunk, int) {
        const int32_t expert = order.experts[chunk / n_chunks];
        const int64_t first  = chunk % n_chunks * at_once;
        const int64_t last   = std::min(panels_of_expert, first + at_once);
        const int64_t column = order.first[expert];
        const char * columns = rows.data + static_cast<size_t>(column) * rows.stride;
        const int64_t n      = order.first[expert + 1] - column;
        int64_t start        = 0;
        ProductTarget to     = {};
        to.dst_stride        = dst->nb[1] / sizeof(float);
        to.dst               = static_cast<float *>(dst->data) + static_cast<size_t>(column) * to.dst_stride;
        for (int i = 0; i < plan.n_weights; ++i) {
            const WeightMatrix m = WeightMatrix::of(w[i], expert);
            const int64_t from   = std::max(first, start) - start;
            const int64_t until  = std::min(last, start + m.n_panels()) - start;
            multiply(m, from, until, columns, rows.stride, n, to);
            start += m.n_panels();
            to.dst += m.n_out;
        }
    });
}

void compute_sum(ggml_tensor * dst, int, int, void * data) {
    const ExpertPlan & plan     = *static_cast<const ExpertPlan *>(data);
    const ggml_tensor * y       = dst->src[0];
    const ggml_tensor * weights = dst->src[2];
    const Order order           = order_of(dst->src[1], y->ne[1], plan.n_expert);
    plan.run->for_each(dst->ne[1], dst->ne[0] * plan.n_used, [&](int64_t token, int) {
        float * to =
            reinterpret_cast<float *>(static_cast<char *>(dst->data) + static_cast<size_t>(token) * dst->nb[1]);
        const float * share = reinterpret_cast<const float *>(static_cast<const char *>(weights->data) +
                                                              static_cast<size_t>(token) * weights->nb[1]);
        for (int32_t rank = 0; rank < plan.n_used; ++rank) {
            const size_t place = static_cast<size_t>(order.places[token * plan.n_used + rank]);
            const float * from = reinterpret_cast<const float *>(static_cast<const char *>(y->data) + place * y->nb[1]);
            for (int64_t i = 0; i < dst->ne[0]; ++i) {
                const float part = from[i] * share[rank];
                to[i]            = rank == 0 ? part : to[i] + part;
            }
        }
    });
}

} // namespace

ggml_tensor * expert_order_node(ggml_context * ctx, const ExpertPlan * plan, ggml_tensor * ids) {
    ggml_tensor * args[] = {ids};
    return ggml_custom_4d(ctx, GGML_TYPE_I32, order_length(ids->ne[0] * ids->ne[1], plan->n_expert), 1, 1, 1, args, 1,
                          compute_order, 1, const_cast<ExpertPlan *>(plan)); // only read
}

size_t expert_scratch_bytes(const ExpertPlan & plan, const ggml_tensor * weight, int64_t n) {
    const int64_t rows = n * plan.n_used + (plan.rows_of_pairs ? 0 : n);
    return column_form(weight).bytes(weight->ne[0]) * static_cast<size_t>(rows);
}

ggml_tensor * expert_product_node(ggml_context * ctx, const ExpertPlan * plan, ggml_tensor * const * weights,
                                  ggml_tensor * x, ggml_tensor * order, ggml_tensor * scratch) {
    ggml_tensor * args[5];
    int n_args    = 0;
    int64_t n_out = 0;
    for (int32_t i = 0; i < plan->n_weights; ++i) {
        args[n_args++] = weights[i];
        n_out += weights[i]->ne[1];
    }
    args[n_args++]        = x;
    args[n_args++]        = order;
    args[n_args++]        = scratch;
    const int64_t n_pairs = plan->rows_of_pairs ? x->ne[1] : x->ne[1] * plan->n_used;
    return ggml_custom_4d(ctx, GGML_TYPE_F32, n_out, n_pairs, 1, 1, args, n_args, compute_product, 1,
                          const_cast<ExpertPlan *>(plan));
}

ggml_tensor * expert_sum_node(ggml_context * ctx, const ExpertPlan * plan, ggml_tensor * y, ggml_tensor * order,
                              ggml_tensor * weights) {
    ggml_tensor * args[] = {y, order, weights};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, y->ne[0], y->ne[1] / plan->n_used, 1, 1, args, 3, compute_sum, 1,
                          const_cast<ExpertPlan *>(plan));
}

} // namespace pyspec
