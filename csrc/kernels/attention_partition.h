// The inner routine of attention: rows (queries of some heads) that share one head of K and V, over one partition of
// the cache.
//
// Included by files that are compiled for other instruction sets than the rest: no inline functions here but constexpr
// ones of whole numbers.
//
// A partition is attention_partition cells whose first index is a multiple of it, so what is summed together depends on
// the place of a token in the sequence and on nothing else: not on the number of queries, threads or cells. Within it,
// blocks of attention_block cells in order:
//
//   s_j = scale * sum over i of q_i * k_ji, i ascending, fused       (softcap: cap * tanh(s_j / cap))
//   m'  = max(m, max s_j);  c = exp(m - m');  p_j = exp(s_j - m')
//   l   = l * c + sum of p_j in a fixed tree;  o = o * c + p_j * v_j, j ascending, fused
//
// over the cells that the row may see. A cell it may not see is not touched, whatever lies there; a block without one
// it may see changes nothing. Partitions are combined in order (attention.cpp).
#pragma once

#include "ggml.h"

#include <cstddef>
#include <cstdint>

namespace pyspec {

constexpr int32_t attention_block     = 64;
constexpr int32_t attention_partition = 256;

struct AttentionTask {
    ggml_type type_k; // f32, f16, bf16 or q8_0
    ggml_type type_v;
    const char * k; // cell 0 of the head
    const char * v;
    size_t k_stride; // bytes from cell to cell
    size_t v_stride;
    int32_t dim_k;
    int32_t dim_v;
    float scale;
    float softcap; // 0: none
    int32_t n_rows;
    const float * const * q; // n_rows pointers to dim_k floats
    const int32_t * first;   // of each row: the cells it may see are first .. last - 1
    const int32_t * last;
    int32_t begin; // first cell of the partition
    int32_t end;   // one past its last
    float * space; // attention_space() floats, aligned to 64 bytes
    float * out; // {attention_stride(dim_v), n_rows}: m, l, o of each row; -infinity, 0 and 0 when it sees nothing here
};

// The widths that rows have in memory: whole vectors of any instruction set.
constexpr int32_t attention_width(int32_t dim) {
    return (dim + 15) / 16 * 16;
}
// Floats of one row of `out`: m, l, o.
constexpr size_t attention_stride(int32_t dim_v) {
    return static_cast<size_t>(attention_width(dim_v)) + 2;
}
// Floats of `space`.
constexpr size_t attention_space(int32_t dim_k, int32_t dim_v) {
    return static_cast<size_t>(attention_block) *
           static_cast<size_t>(2 * attention_width(dim_k) + attention_width(dim_v));
}

struct AttentionRoutines {
    void (*attend)(const AttentionTask & task);
    // Adds the next partition of a row to the sum of those before it; both laid out as m, l, o.
    void (*append)(float * total, const float * part, int32_t dim_v);
};

} // namespace pyspec
