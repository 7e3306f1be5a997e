#include "graph/experts.h"

#include "graph/ffn.h"
#include "kernels/experts.h"
#include "kernels/top_k.h"
#include "kernels/weight_matrix.h"

#include <cmath>

namespace pyspec {

ggml_tensor * experts(GraphBuilder & g, const ExpertWeights & w, ggml_tensor * x) {
    const int64_t n = x->ne[1];

    ggml_tensor * scores        = linear(g, w.router, x);
    ggml_tensor * probabilities = ggml_soft_max(g.ctx, scores);                 // {n_expert, n}
    ggml_tensor * ids           = top_k(g.ctx, g.run, probabilities, w.n_used); // I32 {n_used, n}

    ggml_tensor * weights =
        ggml_get_rows(g.ctx, ggml_reshape_3d(g.ctx, probabilities, 1, w.n_expert, n), ids); // {1, n_used, n}
    weights = ggml_reshape_2d(g.ctx, weights, w.n_used, n);
    if (w.renormalise) {
        ggml_tensor * sum = ggml_sum_rows(g.ctx, weights);
        sum               = ggml_clamp(g.ctx, sum, 6.103515625e-5f, INFINITY); // the smallest normal f16
        weights           = ggml_div(g.ctx, weights, sum);
    }

    ExpertPlan plan;
    plan.run                = g.run;
    plan.n_expert           = w.n_expert;
    plan.n_used             = w.n_used;
    const ExpertPlan * sort = g.keep(plan);
    ggml_tensor * order     = expert_order_node(g.ctx, sort, ids);

    const auto product = [&](std::initializer_list<ggml_tensor *> matrices, ggml_tensor * rows, bool of_pairs) {
        plan.n_weights     = static_cast<int32_t>(matrices.size());
        plan.rows_of_pairs = of_pairs;
        return expert_product_node(g.ctx, g.keep(plan), matrices.begin(), rows, order,
                                   g.scratch(expert_scratch_bytes(plan, *matrices.begin(), n)));
    };
    ggml_tensor * gate_up = same_column_form(w.gate, w.up)
                                ? product({w.gate, w.up}, x, false)
                                : ggml_concat(g.ctx, product({w.gate}, x, false), product({w.up}, x, false), 0);
    ggml_tensor * y       = product({w.down}, gate(g, gate_up, GateActivation::silu), true);
    return expert_sum_node(g.ctx, sort, y, order, weights);
}

} // namespace pyspec
