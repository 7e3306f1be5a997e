// Attention of a few or many queries over the contiguous cache, as a graph node. Bits of a query's result depend on its
// place in the sequence only (attention_partition.h); queries and the heads of a group share the reading of K and V.
#pragma once

#include "kernels/attention_partition.h"
#include "kernels/kernel_run.h"

#include "ggml.h"

#include <cstdint>

namespace pyspec {

// What the node of one layer needs to know; must outlive the graph.
struct AttentionPlan {
    KernelRun * run;
    const AttentionRoutines * routines;
    int32_t dim_k;
    int32_t dim_v;
    int32_t n_head;
    int32_t n_head_kv;
    int32_t n_cells; // that may be seen, multiple of attention_partition
    float scale;
    float softcap; // 0: none
    bool sinks;    // the node has them
};

// Up to so many queries share the work over partitions of the cache; more are shared out as they are.
int32_t attention_queries_at_once(int32_t n_head, int32_t n_head_kv);

// Bytes of scratch that the node needs for n queries.
size_t attention_scratch_bytes(const AttentionPlan & plan, int64_t n, int n_threads);

// q f32 {dim_k, n_head, n}, heads contiguous; k and v: cache tensors with one row per cell; visible I32 {2, n}: first
// cell a query may see and one past the last; scratch I8 {attention_scratch_bytes} or more; sinks f32 {n_head} or null
// (plan->sinks): a score of each head that takes part in the softmax and has no value, added after the last cell.
// -> f32 {dim_v * n_head, n}
ggml_tensor * attention_node(ggml_context * ctx, const AttentionPlan * plan, ggml_tensor * q, ggml_tensor * k,
                             ggml_tensor * v, ggml_tensor * visible, ggml_tensor * scratch,
                             ggml_tensor * sinks = nullptr);

} // namespace pyspec
