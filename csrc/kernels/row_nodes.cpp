#include "kernels/row_nodes.h"

#include "kernels/rotation.h"

namespace pyspec {

namespace {

// Row number `row` of the rows of a tensor, counted over all its dimensions but the first.
const float * row_at(const ggml_tensor * t, int64_t row) {
    const int64_t i1 = row % t->ne[1];
    const int64_t i2 = row / t->ne[1] % t->ne[2];
    const int64_t i3 = row / t->ne[1] / t->ne[2];
    return reinterpret_cast<const float *>(static_cast<const char *>(t->data) + static_cast<size_t>(i1) * t->nb[1] +
                                           static_cast<size_t>(i2) * t->nb[2] + static_cast<size_t>(i3) * t->nb[3]);
}
float * row_at(ggml_tensor * t, int64_t row) {
    return const_cast<float *>(row_at(static_cast<const ggml_tensor *>(t), row));
}

// Costs of an element against a multiply-accumulate of a product, roughly.
constexpr int64_t norm_cost   = 40;
constexpr int64_t gate_cost   = 150;
constexpr int64_t rotate_cost = 60;

void compute_norm(ggml_tensor * dst, int, int, void * data) {
    const RowPlan & plan  = *static_cast<const RowPlan *>(data);
    const ggml_tensor * x = dst->src[0];
    const float * w       = dst->src[1] == nullptr ? nullptr : static_cast<const float *>(dst->src[1]->data);
    plan.run->for_each(ggml_nrows(x), norm_cost * x->ne[0], [&](int64_t row, int) {
        plan.routines->rms_norm(row_at(x, row), w, x->ne[0], plan.eps, row_at(dst, row));
    });
}

void compute_gate(ggml_tensor * dst, int, int, void * data) {
    const RowPlan & plan  = *static_cast<const RowPlan *>(data);
    const ggml_tensor * x = dst->src[0];
    const int64_t n       = dst->ne[0];
    const auto routine = plan.activation == GateActivation::silu ? plan.routines->silu_gate : plan.routines->gelu_gate;
    plan.run->for_each(dst->ne[1], gate_cost * n, [&](int64_t row, int) {
        const float * gate = row_at(x, row);
        routine(gate, gate + n, n, row_at(dst, row));
    });
}

void compute_unit_pairs(ggml_tensor * dst, int, int, void * data) {
    const RowPlan & plan = *static_cast<const RowPlan *>(data);
    for (int64_t row = 0; row < ggml_nrows(dst); ++row) {
        float * y = row_at(dst, row);
        for (int32_t i = 0; i < plan.n_rot; ++i) {
            const bool one = plan.adjacent ? i % 2 == 0 : i < plan.n_rot / 2;
            y[i]           = one ? 1.0f : 0.0f;
        }
    }
}

void compute_rotate(ggml_tensor * dst, int, int, void * data) {
    const RowPlan & plan  = *static_cast<const RowPlan *>(data);
    const ggml_tensor * x = dst->src[0];
    const auto rotate     = plan.adjacent ? rotate_adjacent : rotate_halves;
    plan.run->for_each(ggml_nrows(x), rotate_cost * x->ne[0], [&](int64_t row, int) {
        const float * from = row_at(x, row);
        float * to         = row_at(dst, row);
        rotate(from, row_at(dst->src[1], row / x->ne[1]), plan.n_rot, to);
        for (int64_t i = plan.n_rot; i < x->ne[0]; ++i) {
            to[i] = from[i];
        }
    });
}

void * data_of(const RowPlan * plan) {
    return const_cast<RowPlan *>(plan); // only read
}

} // namespace

ggml_tensor * rms_norm_node(ggml_context * ctx, const RowPlan * plan, ggml_tensor * x, ggml_tensor * w) {
    ggml_tensor * args[] = {x, w};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, x->ne[0], x->ne[1], x->ne[2], x->ne[3], args, w == nullptr ? 1 : 2,
                          compute_norm, 1, data_of(plan));
}

ggml_tensor * gate_node(ggml_context * ctx, const RowPlan * plan, ggml_tensor * gate_up) {
    ggml_tensor * args[] = {gate_up};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, gate_up->ne[0] / 2, gate_up->ne[1], 1, 1, args, 1, compute_gate, 1,
                          data_of(plan));
}

ggml_tensor * unit_pairs_node(ggml_context * ctx, const RowPlan * plan, ggml_tensor * positions) {
    ggml_tensor * args[] = {positions};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, plan->n_rot, 1, positions->ne[0], 1, args, 1, compute_unit_pairs, 1,
                          data_of(plan));
}

ggml_tensor * rotate_node(ggml_context * ctx, const RowPlan * plan, ggml_tensor * x, ggml_tensor * table) {
    ggml_tensor * args[] = {x, table};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, x->ne[0], x->ne[1], x->ne[2], 1, args, 2, compute_rotate, 1,
                          data_of(plan));
}

} // namespace pyspec
