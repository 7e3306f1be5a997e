// A context: the memory of one sequence, its graphs and output rows. One thread at a time (csrc/api enforces it).
#pragma once

#include "memory/kv_cache.h"
#include "runtime/graph_cache.h"
#include "runtime/model.h"
#include "support/thread_pool.h"

#include "ggml-backend.h"

#include <memory>
#include <vector>

namespace pyspec {

struct ContextOptions {
    int32_t n_ctx                  = 0; // 0 = the model's training context
    int32_t n_batch                = 2048;
    int32_t n_ubatch               = 512;
    int32_t n_outputs              = 64;
    int32_t n_threads              = 0; // 0 = physical cores
    ggml_type type_k               = GGML_TYPE_F16;
    ggml_type type_v               = GGML_TYPE_F16;
    pyspec_memory_kind memory_kind = PYSPEC_MEMORY_AUTO;
};

struct MemoryReport {
    uint64_t weight_bytes;
    uint64_t cache_bytes;
    uint64_t compute_bytes;
    uint64_t output_bytes;
    uint64_t available_bytes;
};

struct ContextStats {
    int64_t n_decode      = 0;
    int64_t n_tokens      = 0;
    int64_t n_graph_build = 0;
    int64_t n_graph_reuse = 0;
    int64_t compute_us    = 0;
    int64_t decode_us     = 0;
};

enum class Rollback { no = 0, full = 1, part = 2, tail = 3 };

struct Batch {
    const int32_t * tokens;
    int32_t n_tokens;
    const int32_t * positions; // or null
    const int8_t * outputs;    // or null: only the last token
};

class Context {
public:
    // Needs are computed and compared with the available memory first. Throws OPTION, OUT_OF_MEMORY, UNSUPPORTED.
    Context(std::shared_ptr<const Model> model, const ContextOptions & options);
    ~Context();

    static MemoryReport estimate(std::shared_ptr<const Model> model, const ContextOptions & options);

    const Model & model() const { return *model_; }
    const ContextOptions & options() const { return options_; } // resolved
    const Memory & memory() const { return *cache_; }

    // See pyspec_decode. On any throw the memory is as before the call and there are no output rows.
    void decode(const Batch & batch, Job * job);

    int32_t n_outputs() const { return n_output_rows_; }
    const float * logits(int32_t row) const;        // null when out of range
    const float * logits_maxima(int32_t row) const; // of its blocks, see support/row_blocks.h; null when out of range
    void set_taps(const int32_t * layers, int32_t n);
    const float * taps(int32_t i) const; // null when out of range

    bool can_remove(int32_t p0, int32_t p1) const; // -1 = open end
    bool remove(int32_t p0, int32_t p1);
    // See pyspec_seq_add; -1 = open end. Throws OPTION, UNSUPPORTED; then nothing has changed.
    void shift(int32_t p0, int32_t p1, int32_t delta);
    Move check_shift(int32_t p0, int32_t p1, int32_t delta) const;
    // Tries what the memory can undo. Destroys its content.
    Rollback probe_rollback();

    size_t state_size() const;
    void state_save(uint8_t * out) const; // state_size() bytes
    // Throws FILE_FORMAT / OPTION before anything changes.
    void state_restore(const uint8_t * in, size_t size);

    ContextStats stats() const;
    const KernelCounters & kernel_counters() const { return run_.counters; }

private:
    struct MeasureOnly {};
    Context(std::shared_ptr<const Model> model, const ContextOptions & options, MeasureOnly);

    void release(); // what the destructor of an unfinished object would not
    void resolve_options();
    void make_cache();
    int32_t padded_cells(int32_t n) const;
    GraphOptions graph_options();
    std::vector<GraphShape> worst_shapes() const;
    MemoryReport measure();

    void check_batch(const Batch & batch, std::vector<int32_t> & positions, int32_t & n_rows) const;
    void run_ubatch(const Batch & batch, int32_t first, int32_t n, int32_t first_row, int32_t n_rows, Job * job);
    void set_inputs(GraphBuilder & g, const Batch & batch, int32_t first, int32_t n, int32_t head);

    std::shared_ptr<const Model> model_;
    ContextOptions options_;
    KernelRun run_; // nodes of the graphs point at it
    std::unique_ptr<KvCache> cache_;
    std::unique_ptr<GraphCache> graphs_;
    std::shared_ptr<ThreadPool> threads_;
    ggml_threadpool * ggml_thread_       = nullptr; // one: see KernelRun
    ggml_backend_t backend_              = nullptr;
    ggml_backend_buffer_t logits_buffer_ = nullptr; // {n_vocab, options_.n_outputs}
    std::vector<float> logits_maxima_;              // {n_row_blocks(n_vocab), options_.n_outputs}
    int32_t n_output_rows_ = 0;
    std::vector<int32_t> tap_layers_;
    std::vector<std::vector<float>> tap_rows_; // per tap {n_embd, n_tokens of the last decode}
    std::vector<int32_t> tap_layers_of_rows_;
    ContextStats stats_;
};

} // namespace pyspec
