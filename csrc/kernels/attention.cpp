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

size_t thread_bytes(const AttentionPlan & plan) {
    const size_t n_rows = static_cast<size_t>(rows_at_once(plan));
    const size_t floats = attention_space(plan.dim_k, plan.dim_v) + 2 * n_rows * attention_stride(plan.dim_v);
    const size_t bytes  = floats * sizeof(float) + n_rows * (sizeof(float *) + 2 * sizeof(int32_t));
    return (bytes + 127) / 128 * 128;
}

// Whole vectors lie in one cache line; ggml places tensors at multiples of 32 only.
constexpr size_t alignment = 64;
char * aligned(const ggml_tensor * scratch) {
    const auto address = reinterpret_cast<uintptr_t>(scratch->data);
    return reinterpret_cast<char *>((address + alignment - 1) / alignment * alignment);
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
Scratch scratch_of(const AttentionPlan & plan, const ggml_tensor * scratch, int thread) {
    char * base = aligned(scratch) + static_cast<size_t>(thread) * thread_bytes(plan);
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

// The result of a row: o / l, after the sink of its head. `part` is room for one more state.
void finish(const AttentionPlan & plan, float * total, float * part, ggml_tensor * dst, int32_t head, int64_t query) {
    if (plan.sinks) {
        std::fill(part, part + attention_stride(plan.dim_v), 0.0f);
        part[0] = static_cast<const float *>(dst->src[5]->data)[head];
        part[1] = 1.0f;
        plan.routines->append(total, part, plan.dim_v);
    }
    float * y = reinterpret_cast<float *>(static_cast<char *>(dst->data) + static_cast<size_t>(query) * dst->nb[1]) +
                static_cast<size_t>(head) * static_cast<size_t>(plan.dim_v);
    for (int32_t i = 0; i < plan.dim_v; ++i) {
        y[i] = total[2 + i] / total[1];
    }
}

// About what a task costs, in multiply-accumulates of a product.
int64_t cost_of(const AttentionPlan & plan, int64_t n_rows, int64_t n_cells) {
    return (4 * n_rows + 8) * n_cells * (plan.dim_k + plan.dim_v);
}

// Many queries: a task is some queries and one head of K and V, all partitions one after the other.
void attend_whole(const AttentionPlan & plan, ggml_tensor * dst) {
    const ggml_tensor * q       = dst->src[0];
    const ggml_tensor * visible = dst->src[3];
    const size_t stride         = attention_stride(plan.dim_v);
    const int64_t n             = q->ne[2];
    const int64_t at_once       = queries_at_once(plan);
    const int64_t n_chunks      = (n + at_once - 1) / at_once;
    const int64_t cost          = cost_of(plan, std::min(n, at_once) * group_of(plan), plan.n_cells);
    plan.run->for_each(n_chunks * plan.n_head_kv, cost, [&](int64_t unit, int thread) {
        const Scratch s       = scratch_of(plan, dst->src[4], thread);
        const int32_t head_kv = static_cast<int32_t>(unit % plan.n_head_kv);
        const int64_t first   = unit / plan.n_head_kv * at_once;
        Rows rows{s.q, s.first, s.last, 0, 0, 0};
        collect(plan, q, visible, head_kv, first, std::min(n, first + at_once), rows);
        for (int32_t r = 0; r < rows.n; ++r) {
            start(plan, s.total + static_cast<size_t>(r) * stride);
        }
        for (int32_t p = rows.lowest / attention_partition; p * attention_partition < rows.highest; ++p) {
            if (plan.run->threads->cancelled()) {
                return; // over many cells this takes long, and nobody wants the result
            }
            plan.routines->attend(task_of(plan, dst->src[1], dst->src[2], head_kv, rows, p, s.space, s.part));
            for (int32_t r = 0; r < rows.n; ++r) {
                plan.routines->append(s.total + static_cast<size_t>(r) * stride,
                                      s.part + static_cast<size_t>(r) * stride, plan.dim_v);
            }
        }
        for (int32_t r = 0; r < rows.n; ++r) {
            finish(plan, s.total + static_cast<size_t>(r) * stride, s.part, dst,
                   head_kv * group_of(plan) + r % group_of(plan), first + r / group_of(plan));
        }
    });
}

// Few queries: a task is one partition and one head of K and V; what it found lies in scratch behind what belongs to
// the threads, {stride, rows of a head, heads, partitions}, until all are done and are put together in order.
void attend_partitions(const AttentionPlan & plan, ggml_tensor * dst) {
    const ggml_tensor * q       = dst->src[0];
    const ggml_tensor * visible = dst->src[3];
    const size_t stride         = attention_stride(plan.dim_v);
    const int64_t n             = q->ne[2];
    const int64_t n_rows        = n * group_of(plan);
    const int64_t n_units       = int64_t{n_partitions(plan)} * plan.n_head_kv;
    const size_t of_threads     = static_cast<size_t>(plan.run->threads->n_threads()) * thread_bytes(plan);
    float * parts               = reinterpret_cast<float *>(aligned(dst->src[4]) + of_threads);
    const auto part_of          = [&](int64_t unit, int64_t row) {
        return parts + static_cast<size_t>(unit * n_rows + row) * stride;
    };
    plan.run->for_each(n_units, cost_of(plan, n_rows, attention_partition), [&](int64_t unit, int thread) {
        const Scratch s       = scratch_of(plan, dst->src[4], thread);
        const int32_t head_kv = static_cast<int32_t>(unit % plan.n_head_kv);
        const int32_t p       = static_cast<int32_t>(unit / plan.n_head_kv);
        Rows rows{s.q, s.first, s.last, 0, 0, 0};
        collect(plan, q, visible, head_kv, 0, n, rows);
        plan.routines->attend(task_of(plan, dst->src[1], dst->src[2], head_kv, rows, p, s.space, part_of(unit, 0)));
    });
    const int64_t append_cost = int64_t{8} * n_partitions(plan) * plan.dim_v;
    plan.run->for_each(n_rows * plan.n_head_kv, append_cost, [&](int64_t unit, int thread) {
        const Scratch s       = scratch_of(plan, dst->src[4], thread);
        const int32_t head_kv = static_cast<int32_t>(unit / n_rows);
        const int64_t row     = unit % n_rows;
        start(plan, s.total);
        for (int32_t p = 0; p < n_partitions(plan); ++p) {
            plan.routines->append(s.total, part_of(int64_t{p} * plan.n_head_kv + head_kv, row), plan.dim_v);
        }
        finish(plan, s.total, s.part, dst, head_kv * group_of(plan) + static_cast<int32_t>(row) % group_of(plan),
               row / group_of(plan));
    });
}

// One partition, or queries enough to keep all threads busy: nothing to put together.
bool by_partitions(const AttentionPlan & plan, int64_t n) {
    return n_partitions(plan) > 1 && n <= queries_at_once(plan);
}

void compute_attention(ggml_tensor * dst, int, int, void * data) {
    const AttentionPlan & plan = *static_cast<const AttentionPlan *>(data);
    count(plan.run->counters.attention);
    if (by_partitions(plan, dst->src[0]->ne[2])) {
        attend_partitions(plan, dst);
    } else {
        attend_whole(plan, dst);
    }
}

} // namespace

int32_t attention_queries_at_once(int32_t n_head, int32_t n_head_kv) {
    return std::max(1, max_rows / (n_head / n_head_kv));
}

size_t attention_scratch_bytes(const AttentionPlan & plan, int64_t n, int n_threads) {
    const size_t bytes = static_cast<size_t>(n_threads) * thread_bytes(plan) + alignment;
    if (!by_partitions(plan, n)) {
        return bytes;
    }
    const int64_t n_parts = n * plan.n_head * n_partitions(plan);
    return bytes + static_cast<size_t>(n_parts) * attention_stride(plan.dim_v) * sizeof(float);
}

ggml_tensor * attention_node(ggml_context * ctx, const AttentionPlan * plan, ggml_tensor * q, ggml_tensor * k,
                             ggml_tensor * v, ggml_tensor * visible, ggml_tensor * scratch, ggml_tensor * sinks) {
    ggml_tensor * args[] = {q, k, v, visible, scratch, sinks};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, int64_t{plan->dim_v} * plan->n_head, q->ne[2], 1, 1, args,
                          sinks == nullptr ? 5 : 6, compute_attention, 1,
                          const_cast<AttentionPlan *>(plan)); // only read
}

} // namespace pyspec
