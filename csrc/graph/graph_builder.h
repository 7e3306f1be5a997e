// One compute graph under construction: its shape, input tensors, outputs and the cache writes that move with the
// sequence.
//
// A graph depends on its GraphShape only. Everything that changes between decodes of the same shape (token ids,
// positions, visible cells, which cells are written, where logits go) is an input or is patched by the context, so
// graphs are kept and reused.
#pragma once

#include "graph/rope_params.h"
#include "kernels/kernel_run.h"
#include "kernels/panel_tile.h"
#include "memory/kv_cache.h"

#include "ggml.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace pyspec {

// Number of the tap that is taken after the output norm; others are layer numbers (see pyspec_context_set_taps).
constexpr int32_t tap_final = -1;

struct GraphShape {
    int32_t n_tokens;
    int32_t n_kv;      // cells that attention looks at, multiple of 256
    int32_t n_outputs; // rows that get logits
    std::vector<int32_t> taps;

    bool operator==(const GraphShape & other) const {
        return n_tokens == other.n_tokens && n_kv == other.n_kv && n_outputs == other.n_outputs && taps == other.taps;
    }
};

// What all graphs of a context have in common.
struct GraphOptions {
    int32_t n_ctx; // configured context; long-context rope factors are chosen by it
    int32_t n_threads;
    const TileSet * kernels;
    KernelRun * run; // may be without threads where graphs are measured only
};

class GraphBuilder {
public:
    // A cache write: `view` is the range of the cache tensor that receives the new cells, `copy` the node that writes
    // it. The context moves both to the current end of the cache before each run.
    struct CacheWrite {
        ggml_tensor * view;
        ggml_tensor * copy;
        size_t cell_bytes; // distance between two cells
    };

    // The cells that each token may see with one window size (0 = all before it); filled by the context.
    struct Visible {
        int32_t window;
        ggml_tensor * tensor; // I32 {2, n_tokens}: first cell, one past the last
    };

    // Cosines and sines of the positions, for one kind of rotation.
    struct RopeTable {
        RopeParams params;
        ggml_tensor * tensor; // f32 {n_rot, 1, n_tokens}
    };

    GraphBuilder(ggml_context * ctx, ggml_cgraph * graph, const GraphShape & shape, const KvCache & cache,
                 const GraphOptions & options);

    ggml_context * ctx;
    ggml_cgraph * graph;
    const GraphShape & shape;
    const KvCache & cache;
    const int32_t n_ctx;
    const int32_t n_threads;
    const TileSet & kernels;
    KernelRun * const run;

    ggml_tensor * tokens();    // I32 {n_tokens}
    ggml_tensor * positions(); // I32 {n_tokens}
    ggml_tensor * visible(int32_t window);
    ggml_tensor * rope_table(const RopeParams & params);
    // Memory of a node while it runs: I8 {bytes} or more. Nodes run one after the other and share it.
    ggml_tensor * scratch(size_t bytes);
    // Keeps what a node points at as long as the graph.
    template <typename T> const T * keep(const T & plan) {
        auto kept     = std::make_shared<T>(plan);
        const T * raw = kept.get();
        kept_.push_back(std::move(kept));
        return raw;
    }

    // Keeps of x {n, n_tokens} only the rows that get logits.
    ggml_tensor * output_rows(ggml_tensor * x);
    // After the last layer's attention: do only the output rows matter from here on?
    bool narrow_after_attention(int32_t layer, int32_t n_layer) const;
    // After the last layer's cache writes: is nothing else wanted?
    bool done_after_cache_writes(int32_t layer, int32_t n_layer) const;

    // x {n_vocab, n_outputs}: the logits of the output rows.
    void set_logits(ggml_tensor * x);

    // Export x {n_embd, n_tokens} if tap number `layer` was asked for.
    void tap(int32_t layer, ggml_tensor * x);
    bool wants_tap(int32_t layer) const;

    ggml_tensor * scratch_   = nullptr;
    ggml_tensor * tokens_    = nullptr;
    ggml_tensor * positions_ = nullptr;
    ggml_tensor * rows_      = nullptr; // I32 {n_outputs}
    std::vector<Visible> visibles;
    std::vector<RopeTable> rope_tables;
    std::vector<CacheWrite> cache_writes;
    std::vector<ggml_tensor *> tap_tensors; // in the order of shape.taps
    ggml_tensor * logits        = nullptr;  // {n_vocab, n_outputs}; null when no rows are wanted
    ggml_tensor * logits_maxima = nullptr;  // of their blocks

private:
    std::vector<std::shared_ptr<const void>> kept_;
};

} // namespace pyspec
