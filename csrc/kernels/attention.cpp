#include "kernels/attention.h"

#include <algorithm>
#include <limits>

namespace pyspec {

namespace {

constexpr int32_t max_rows = 64; // queries times heads of a group that one task takes

int32_t group_of(const AttentionPlan & plan) {
    return plan.n_head / plan.n_head_kv;
}
// Queries that one task takes, with all heads of a group.
int32_t queries_at_once(const AttentionPlan & plan) {
    return attention_queries_at_once(plan.n_head, plan.n_head_kv);
}
int32_t n_partitions(const AttentionPlan & plan) {
    return plan.n_cells / attention_partition;
}
int32_t rows_at_once(const AttentionPlan & plan) {
    return queries_at_once(plan) * group_of(plan);
}

// Per thread: space of the routine, partial and total states of a task's rows, and what the routine wants to know of
// them.
struct Scratch {
    float * space;
    float * part;
    float * total;
    const float ** q;
    int32_t * first;
    int32_t * last;
};
Scratch scratch_of(const AttentionPlan & plan, const ggml_tensor * scratch, int ith) {
    char * base = static_cast<char *>(scratch->data) + static_cast<size_t>(ith) * scratch->nb[1];
    Scratch s;
    s.space             = reinterpret_cast<float *>(base);
    s.part              = s.space + attention_space(plan.dim_k, plan.dim_v);
    const size_t n_rows = static_cast<size_t>(rows_at_once(plan));
    s.total             = s.part + n_rows * attention_stride(plan.dim_v);
    char * behind       = reinterpret_cast<char *>(s.total + n_rows * attention_stride(plan.dim_v));
    s.q                 = reinterpret_cast<const float **>(behind);
    s.first             = reinterpret_cast<int32_t *>(s.q + n_rows);
    s.last              = s.first + n_rows;
    return s;
}

// The rows of queries first .. last - 1 and one head of K and V: query by query, head by head.
struct Rows {
    const float ** q;
    int32_t * first;
    int32_t * last;
    int32_t n = 0;
    int32_t lowest;  // of the cells that anybody sees
    int32_t highest; // one past
};

void collect(const AttentionPlan & plan, const ggml_tensor * q, const ggml_tensor * visible, int32_t head_kv,
             int64_t first, int64_t last, Rows & rows) {
    rows.n       = 0;
    rows.lowest  = std::numeric_limits<int32_t>::max();
    rows.highest = 0;
    for (int64_t i = first; i < last; ++i) {
        const int32_t * range = reinterpret_cast<const int32_t *>(static_cast<const char *>(visible->data) +
                                                                  static_cast<size_t>(i) * visible->nb[1]);
        rows.lowest           = std::min(rows.lowest, range[0]);
        rows.highest          = std::max(rows.highest, range[1]);
        for (int32_t h = 0; h < group_of(plan); ++h) {
            const size_t head  = static_cast<size_t>(head_kv * group_of(plan) + h);
            rows.q[rows.n]     = reinterpret_cast<const float *>(static_cast<const char *>(q->data) + head * q->nb[1] +
                                                                 static_cast<size_t>(i) * q->nb[2]);
            rows.first[rows.n] = range[0];
            rows.last[rows.n]  = range[1];
            ++rows.n;
        }
    }
}

AttentionTask task_of(const AttentionPlan & plan, const ggml_tensor * k, const ggml_tensor * v, int32_t head_kv,
                      const Rows & rows, int32_t partition, float * space, float * out) {
    AttentionTask t;
    t.type_k   = k->type;
    t.type_v   = v->type;
    t.k        = static_cast<const char *>(k->data) + static_cast<size_t>(head_kv) * ggml_row_size(k->type, plan.dim_k);
    t.v        = static_cast<const char *>(v->data) + static_cast<size_t>(head_kv) * ggml_row_size(v->type, plan.dim_v);
    t.k_stride = k->nb[1];
    t.v_stride = v->nb[1];
    t.dim_k    = plan.dim_k;
    t.dim_v    = plan.dim_v;
    t.scale    = plan.scale;
    t.softcap  = plan.softcap;
    t.n_rows   = rows.n;
    t.q        = rows.q;
    t.first    = rows.first;
    t.last     = rows.last;
    t.begin    = partition * attention_partition;
    t.end      = t.begin + attention_partition;
    t.space    = space;
    t.out      = out;
    return t;
}

void start(const AttentionPlan & plan, float * total) {
    std::fill(total, total + attention_stride(plan.dim_v), 0.0f);
    total[0] = -std::numeric_limits<float>::infinity();
}

// The result of a row: o / l.
void finish(const AttentionPlan & plan, const float * total, ggml_tensor * dst, int32_t head, int64_t query) {
    float * y = reinterpret_cast<float *>(static_cast<char *>(dst->data) + static_cast<size_t>(query) * dst->nb[1]) +
                static_cast<size_t>(head) * static_cast<size_t>(plan.dim_v);
    for (int32_t i = 0; i < plan.dim_v; ++i) {
        y[i] = total[2 + i] / total[1];
    }
}

// Many queries: a task is some queries and one head of K and V, all partitions one after the other.
void whole_node(ggml_tensor * dst, int ith, int nth, void * data) {
    const AttentionPlan & plan  = *static_cast<const AttentionPlan *>(data);
    const ggml_tensor * q       = dst->src[0];
    const ggml_tensor * visible = dst->src[3];
    const Scratch s             = scratch_of(plan, dst->src[4], ith);
    const size_t stride         = attention_stride(plan.dim_v);
    const int64_t n             = q->ne[2];
    const int64_t at_once       = queries_at_once(plan);
    const int64_t n_chunks      = (n + at_once - 1) / at_once;
    Rows rows{s.q, s.first, s.last, 0, 0, 0};
    for (int64_t unit = ith; unit < n_chunks * plan.n_head_kv; unit += nth) {
        const int32_t head_kv = static_cast<int32_t>(unit % plan.n_head_kv);
        const int64_t first   = unit / plan.n_head_kv * at_once;
        collect(plan, q, visible, head_kv, first, std::min(n, first + at_once), rows);
        for (int32_t r = 0; r < rows.n; ++r) {
            start(plan, s.total + static_cast<size_t>(r) * stride);
        }
        for (int32_t p = rows.lowest / attention_partition; p * attention_partition < rows.highest; ++p) {
            plan.routines->attend(task_of(plan, dst->src[1], dst->src[2], head_kv, rows, p, s.space, s.part));
            for (int32_t r = 0; r < rows.n; ++r) {
                plan.routines->append(s.total + static_cast<size_t>(r) * stride,
                                      s.part + static_cast<size_t>(r) * stride, plan.dim_v);
            }
        }
        for (int32_t r = 0; r < rows.n; ++r) {
            finish(plan, s.total + static_cast<size_t>(r) * stride, dst, head_kv * group_of(plan) + r % group_of(plan),
                   first + r / group_of(plan));
        }
    }
}

// Few queries: a task is one partition and one head of K and V. -> {stride, rows of a head, partitions, heads}
void partitions_node(ggml_tensor * dst, int ith, int nth, void * data) {
    const AttentionPlan & plan = *static_cast<const AttentionPlan *>(data);
    const Scratch s            = scratch_of(plan, dst->src[4], ith);
    Rows rows{s.q, s.first, s.last, 0, 0, 0};
    for (int64_t unit = ith; unit < dst->ne[2] * dst->ne[3]; unit += nth) {
        const int32_t head_kv = static_cast<int32_t>(unit % plan.n_head_kv);
        const int32_t p       = static_cast<int32_t>(unit / plan.n_head_kv);
        collect(plan, dst->src[0], dst->src[3], head_kv, 0, dst->src[0]->ne[2], rows);
        char * out = static_cast<char *>(dst->data) + static_cast<size_t>(p) * dst->nb[2] +
                     static_cast<size_t>(head_kv) * dst->nb[3];
        plan.routines->attend(
            task_of(plan, dst->src[1], dst->src[2], head_kv, rows, p, s.space, reinterpret_cast<float *>(out)));
    }
}

void append_node(ggml_tensor * dst, int ith, int nth, void * data) {
    const AttentionPlan & plan = *static_cast<const AttentionPlan *>(data);
    const ggml_tensor * parts  = dst->src[0];
    const Scratch s            = scratch_of(plan, dst->src[1], ith);
    const int64_t n_rows       = parts->ne[1];
    for (int64_t unit = ith; unit < n_rows * plan.n_head_kv; unit += nth) {
        const int32_t head_kv = static_cast<int32_t>(unit / n_rows);
        const int64_t row     = unit % n_rows;
        start(plan, s.total);
        for (int64_t p = 0; p < parts->ne[2]; ++p) {
            const char * part = static_cast<const char *>(parts->data) + static_cast<size_t>(row) * parts->nb[1] +
                                static_cast<size_t>(p) * parts->nb[2] + static_cast<size_t>(head_kv) * parts->nb[3];
            plan.routines->append(s.total, reinterpret_cast<const float *>(part), plan.dim_v);
        }
        finish(plan, s.total, dst, head_kv * group_of(plan) + static_cast<int32_t>(row) % group_of(plan),
               row / group_of(plan));
    }
}

} // namespace

int32_t attention_queries_at_once(int32_t n_head, int32_t n_head_kv) {
    return std::max(1, max_rows / (n_head / n_head_kv));
}

size_t attention_scratch_bytes(const AttentionPlan & plan) {
    const size_t n_rows = static_cast<size_t>(rows_at_once(plan));
    const size_t floats = attention_space(plan.dim_k, plan.dim_v) + 2 * n_rows * attention_stride(plan.dim_v);
    const size_t bytes  = floats * sizeof(float) + n_rows * (sizeof(float *) + 2 * sizeof(int32_t));
    return (bytes + 127) / 128 * 128;
}

ggml_tensor * attention_nodes(ggml_context * ctx, const AttentionPlan * plan, ggml_tensor * q, ggml_tensor * k,
                              ggml_tensor * v, ggml_tensor * visible, ggml_tensor * scratch) {
    const int64_t n      = q->ne[2];
    const int64_t width  = int64_t{plan->dim_v} * plan->n_head;
    void * data          = const_cast<AttentionPlan *>(plan); // only read
    ggml_tensor * args[] = {q, k, v, visible, scratch};
    // One partition, or queries enough to keep all threads busy: no second node.
    if (n_partitions(*plan) == 1 || n > queries_at_once(*plan)) {
        return ggml_custom_4d(ctx, GGML_TYPE_F32, width, n, 1, 1, args, 5, whole_node, GGML_N_TASKS_MAX, data);
    }
    ggml_tensor * parts =
        ggml_custom_4d(ctx, GGML_TYPE_F32, static_cast<int64_t>(attention_stride(plan->dim_v)), n * group_of(*plan),
                       n_partitions(*plan), plan->n_head_kv, args, 5, partitions_node, GGML_N_TASKS_MAX, data);
    ggml_tensor * last[] = {parts, scratch};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, width, n, 1, 1, last, 2, append_node, GGML_N_TASKS_MAX, data);
}

} // namespace pyspec
