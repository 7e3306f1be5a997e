#include "runtime/context.h"

#include "kernels/attention.h"
#include "memory/test_memories.h"
#include "support/float_environment.h"
#include "support/log.h"
#include "support/row_blocks.h"
#include "support/system.h"

#include "ggml-cpu.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstring>

namespace pyspec {

namespace {

constexpr int32_t cell_padding = 256; // attention looks at a multiple of this many cells, so few graph shapes occur

int64_t now_us() {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

void check_range(const char * name, int64_t value, int64_t lo, int64_t hi) {
    if (value < lo || value > hi) {
        throw Error(PYSPEC_OPTION, format("%s is %lld, expected %lld to %lld", name, static_cast<long long>(value),
                                          static_cast<long long>(lo), static_cast<long long>(hi)));
    }
}

// Does token i of the batch get a logits row?
bool wants_row(const Batch & batch, int32_t i) {
    return batch.outputs == nullptr ? i == batch.n_tokens - 1 : batch.outputs[i] != 0;
}

bool is_cache_type(ggml_type type) {
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16 || type == GGML_TYPE_Q8_0;
}

} // namespace

Context::Context(std::shared_ptr<const Model> model, const ContextOptions & options, MeasureOnly)
    : model_(std::move(model)), options_(options) {
    resolve_options();
    make_cache();
    cache_->pretend_allocated();
    graphs_ = std::make_unique<GraphCache>(model_->family(), *cache_, graph_options());
}

Context::Context(std::shared_ptr<const Model> model, const ContextOptions & options)
    : model_(std::move(model)), options_(options) {
    if (!model_->has_weights()) {
        throw Error(PYSPEC_UNSUPPORTED,
                    "this model was opened with metadata_only; open it with its weights to compute");
    }
    resolve_options();
    const MemoryReport need = Context(model_, options_, MeasureOnly{}).measure();
    const uint64_t extra    = need.cache_bytes + need.compute_bytes + need.output_bytes;
    if (need.available_bytes != 0 && extra > need.available_bytes) {
        throw Error(PYSPEC_OUT_OF_MEMORY,
                    format("a context of %d tokens needs %.0f MB (cache %.0f, compute %.0f, outputs %.0f) besides the "
                           "weights, but %.0f MB are available; use a smaller n_ctx or n_ubatch",
                           options_.n_ctx, static_cast<double>(extra) / 1e6,
                           static_cast<double>(need.cache_bytes) / 1e6, static_cast<double>(need.compute_bytes) / 1e6,
                           static_cast<double>(need.output_bytes) / 1e6,
                           static_cast<double>(need.available_bytes) / 1e6));
    }
    make_cache();
    cache_->allocate();
    graphs_ = std::make_unique<GraphCache>(model_->family(), *cache_, graph_options());
    for (const GraphShape & shape : worst_shapes()) {
        graphs_->reserve(shape);
    }
    logits_maxima_.resize(static_cast<size_t>(options_.n_outputs) *
                          static_cast<size_t>(n_row_blocks(model_->hparams().n_vocab)));
    threads_                            = ThreadPool::get(options_.n_threads);
    const ggml_threadpool_params thread = ggml_threadpool_params_default(1);
    logits_buffer_ = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), need.output_bytes);
    ggml_thread_   = ggml_threadpool_new(const_cast<ggml_threadpool_params *>(&thread)); // only read
    backend_       = ggml_backend_cpu_init();
    if (logits_buffer_ == nullptr || ggml_thread_ == nullptr || backend_ == nullptr) {
        release();
        throw Error(PYSPEC_OUT_OF_MEMORY,
                    format("cannot reserve %.1f MB for output rows", static_cast<double>(need.output_bytes) / 1e6));
    }
    run_.threads = threads_.get();
    ggml_backend_cpu_set_n_threads(backend_, 1);
    ggml_backend_cpu_set_threadpool(backend_, ggml_thread_);
}

Context::~Context() {
    release();
}

void Context::release() {
    ggml_backend_free(backend_);
    ggml_threadpool_free(ggml_thread_);
    ggml_backend_buffer_free(logits_buffer_);
}

void Context::resolve_options() {
    const Hparams & h = model_->hparams();
    check_range("n_threads", options_.n_threads, 0, GGML_MAX_N_THREADS);
    if (options_.n_ctx == 0) {
        options_.n_ctx = h.n_ctx_train;
    }
    if (options_.n_threads == 0) {
        options_.n_threads = physical_cpu_count();
    }
    check_range("n_ctx", options_.n_ctx, 1, 1 << 24);
    check_range("n_batch", options_.n_batch, 1, 1 << 20);
    check_range("n_ubatch", options_.n_ubatch, 1, 1 << 16);
    check_range("n_outputs", options_.n_outputs, 1, 1 << 20);
    check_range("memory_kind", options_.memory_kind, PYSPEC_MEMORY_AUTO, PYSPEC_MEMORY_TEST_NO);
    for (const auto & [name, type] : {std::pair{"type_k", options_.type_k}, std::pair{"type_v", options_.type_v}}) {
        if (!is_cache_type(type)) {
            throw Error(PYSPEC_OPTION,
                        format("%s is type number %d, expected f32, f16, bf16 or q8_0", name, static_cast<int>(type)));
        }
    }
    options_.n_outputs = std::min(options_.n_outputs, options_.n_batch);
    options_.n_ubatch  = std::min(options_.n_ubatch, options_.n_batch);
}

void Context::make_cache() {
    const Hparams & h = model_->hparams();
    KvLayout layout;
    layout.n_layer = h.n_layer;
    layout.n_cells = padded_cells(options_.n_ctx);
    layout.type_k  = options_.type_k;
    layout.type_v  = options_.type_v;
    for (int32_t il = 0; il < h.n_layer; ++il) {
        layout.n_embd_k.push_back(h.n_head_kv[static_cast<size_t>(il)] * h.head_dim_k);
        layout.n_embd_v.push_back(h.n_head_kv[static_cast<size_t>(il)] * h.head_dim_v);
    }
    if (options_.type_k == GGML_TYPE_Q8_0 || options_.type_v == GGML_TYPE_Q8_0) {
        const int block = static_cast<int>(ggml_blck_size(GGML_TYPE_Q8_0));
        if (h.head_dim_k % block != 0 || h.head_dim_v % block != 0) {
            throw Error(PYSPEC_OPTION,
                        format("cache type q8_0 needs head sizes that are multiples of %d; this model has %d "
                               "(K) and %d (V)",
                               block, h.head_dim_k, h.head_dim_v));
        }
    }
    switch (options_.memory_kind) {
    case PYSPEC_MEMORY_AUTO:
        cache_ = std::make_unique<KvCache>(layout);
        break;
    case PYSPEC_MEMORY_TEST_FULL:
        cache_ = std::make_unique<FullRemovalOnlyCache>(layout);
        break;
    case PYSPEC_MEMORY_TEST_NO:
        cache_ = std::make_unique<NoRemovalCache>(layout);
        break;
    }
}

int32_t Context::padded_cells(int32_t n) const {
    return (n + cell_padding - 1) / cell_padding * cell_padding;
}

GraphOptions Context::graph_options() {
    return {options_.n_ctx, options_.n_threads, &model_->kernels(), &run_};
}

std::vector<GraphShape> Context::worst_shapes() const {
    const Hparams & h           = model_->hparams();
    const int32_t n_kv          = padded_cells(options_.n_ctx); // every need grows with the cells
    const int32_t most          = std::min(options_.n_ubatch, n_kv);
    std::vector<int32_t> widths = {most};
    // Attention of few queries keeps what it knows of every partition.
    for (size_t il = 0; il < h.n_head.size(); ++il) {
        widths.push_back(std::min(most, attention_queries_at_once(h.n_head[il], h.n_head_kv[il])));
    }
    std::sort(widths.begin(), widths.end());
    widths.erase(std::unique(widths.begin(), widths.end()), widths.end());
    std::vector<GraphShape> shapes;
    for (const int32_t n : widths) {
        shapes.push_back({n, n_kv, std::min(n, options_.n_outputs), {}});
    }
    return shapes;
}

MemoryReport Context::measure() {
    MemoryReport report{};
    report.weight_bytes = model_->file().weight_bytes();
    report.cache_bytes  = cache_->bytes();
    for (const GraphShape & shape : worst_shapes()) {
        report.compute_bytes = std::max<uint64_t>(report.compute_bytes, graphs_->measure(shape));
    }
    report.output_bytes =
        static_cast<uint64_t>(options_.n_outputs) * static_cast<uint64_t>(model_->hparams().n_vocab) * sizeof(float);
    report.available_bytes = available_memory_bytes();
    return report;
}

MemoryReport Context::estimate(std::shared_ptr<const Model> model, const ContextOptions & options) {
    return Context(std::move(model), options, MeasureOnly{}).measure();
}

void Context::check_batch(const Batch & batch, std::vector<int32_t> & positions, int32_t & n_rows) const {
    const Hparams & h = model_->hparams();
    if (batch.tokens == nullptr) {
        throw Error(PYSPEC_OPTION, "batch.tokens is null");
    }
    check_range("batch.n_tokens", batch.n_tokens, 1, options_.n_batch);
    for (int32_t i = 0; i < batch.n_tokens; ++i) {
        if (batch.tokens[i] < 0 || batch.tokens[i] >= h.n_vocab) {
            throw Error(PYSPEC_OPTION,
                        format("token %d of the batch is %d, expected 0 to %d", i, batch.tokens[i], h.n_vocab - 1));
        }
    }
    int32_t previous = cache_->pos_max();
    for (int32_t i = 0; i < batch.n_tokens; ++i) {
        const int32_t position = batch.positions == nullptr ? previous + 1 : batch.positions[i];
        if (position <= previous) {
            throw Error(
                PYSPEC_OPTION,
                format("position %d of the batch is %d, expected more than %d: positions must grow and the memory "
                       "ends at %d",
                       i, position, previous, cache_->pos_max()));
        }
        positions.push_back(position);
        previous = position;
    }
    if (batch.outputs == nullptr) {
        n_rows = 1;
    } else {
        n_rows = static_cast<int32_t>(
            std::count_if(batch.outputs, batch.outputs + batch.n_tokens, [](int8_t flag) { return flag != 0; }));
    }
    if (n_rows > options_.n_outputs) {
        throw Error(PYSPEC_OPTION, format("the batch asks for %d output rows but the context was made for n_outputs %d",
                                          n_rows, options_.n_outputs));
    }
    const int64_t n_after = int64_t{cache_->n_used()} + batch.n_tokens;
    if (n_after > options_.n_ctx) {
        throw Error(PYSPEC_CONTEXT_FULL, format("%d tokens do not fit: %d of %d cells are in use", batch.n_tokens,
                                                cache_->n_used(), options_.n_ctx));
    }
}

void Context::decode(const Batch & batch, Job * job) {
    const int64_t start = now_us();
    std::vector<int32_t> positions;
    int32_t n_rows = 0;
    n_output_rows_ = 0;
    tap_layers_of_rows_.clear();
    check_batch(batch, positions, n_rows);
    model_->file().check_backing();

    tap_rows_.resize(tap_layers_.size());
    for (std::vector<float> & rows : tap_rows_) {
        rows.resize(static_cast<size_t>(model_->hparams().n_embd) * static_cast<size_t>(batch.n_tokens));
    }
    const int32_t n_used_before = cache_->n_used();
    try {
        ThreadPool::Turn turn(*threads_, job);
        int32_t row = 0;
        for (int32_t first = 0; first < batch.n_tokens;) {
            check_cancelled(job, "decode");
            const int32_t n = std::min(batch.n_tokens - first, options_.n_ubatch);
            int32_t n_out   = 0;
            for (int32_t i = first; i < first + n; ++i) {
                n_out += wants_row(batch, i) ? 1 : 0;
            }
            cache_->append(positions.data() + first, n);
            run_ubatch(batch, first, n, row, n_out, job);
            row += n_out;
            first += n;
            if (job != nullptr) {
                job->progress.store(static_cast<double>(first) / batch.n_tokens, std::memory_order_relaxed);
            }
        }
    } catch (...) {
        cache_->shorten(n_used_before);
        throw;
    }
    n_output_rows_      = n_rows;
    tap_layers_of_rows_ = tap_layers_;
    stats_.n_decode += 1;
    stats_.n_tokens += batch.n_tokens;
    stats_.decode_us += now_us() - start;
}

void Context::run_ubatch(const Batch & batch, int32_t first, int32_t n, int32_t first_row, int32_t n_rows, Job * job) {
    const Hparams & h      = model_->hparams();
    const int32_t head     = cache_->n_used() - n;
    const size_t row_bytes = static_cast<size_t>(h.n_vocab) * sizeof(float);

    const GraphShape shape{n, padded_cells(head + n), n_rows, tap_layers_};
    BuiltGraph & built = graphs_->get(shape, logits_buffer_);
    GraphBuilder & g   = built.builder();
    if (g.logits != nullptr) {
        g.logits->data = static_cast<char *>(ggml_backend_buffer_get_base(logits_buffer_)) +
                         static_cast<size_t>(first_row) * row_bytes;
    }
    for (const GraphBuilder::CacheWrite & write : g.cache_writes) {
        const size_t offset = static_cast<size_t>(head) * write.cell_bytes;
        for (ggml_tensor * t : {write.view, write.copy}) {
            t->view_offs = offset;
            t->data      = static_cast<char *>(t->view_src->data) + offset;
        }
    }
    set_inputs(g, batch, first, n, head);

    ggml_backend_cpu_set_abort_callback(
        backend_, [](void * data) { return static_cast<Job *>(data)->cancelled.load(std::memory_order_relaxed); }, job);
    if (job == nullptr) {
        ggml_backend_cpu_set_abort_callback(backend_, nullptr, nullptr);
    }
    const int64_t start = now_us();
    ggml_status status;
    {
        const DefaultFloatEnvironment environment;
        status = ggml_backend_graph_compute(backend_, built.graph());
    }
    stats_.compute_us += now_us() - start;
    if (status != GGML_STATUS_SUCCESS) {
        check_cancelled(job, "decode");
        throw Error(status == GGML_STATUS_ALLOC_FAILED ? PYSPEC_OUT_OF_MEMORY : PYSPEC_DEVICE,
                    format("the backend failed to compute: %s", ggml_status_to_string(status)));
    }
    if (g.logits != nullptr) {
        const size_t n_blocks = static_cast<size_t>(n_row_blocks(h.n_vocab));
        std::memcpy(logits_maxima_.data() + static_cast<size_t>(first_row) * n_blocks, g.logits_maxima->data,
                    ggml_nbytes(g.logits_maxima));
    }
    for (size_t i = 0; i < g.tap_tensors.size(); ++i) {
        std::memcpy(tap_rows_[i].data() + static_cast<size_t>(first) * static_cast<size_t>(h.n_embd),
                    g.tap_tensors[i]->data, ggml_nbytes(g.tap_tensors[i]));
    }
}

void Context::set_inputs(GraphBuilder & g, const Batch & batch, int32_t first, int32_t n, int32_t head) {
    const std::vector<int32_t> & positions = cache_->positions();
    const size_t n_bytes                   = static_cast<size_t>(n) * sizeof(int32_t);
    std::memcpy(g.tokens()->data, batch.tokens + first, n_bytes);
    if (g.positions_ != nullptr) {
        std::memcpy(g.positions_->data, positions.data() + head, n_bytes);
    }
    if (g.rows_ != nullptr) {
        int32_t * rows = static_cast<int32_t *>(g.rows_->data);
        for (int32_t i = 0; i < n; ++i) {
            if (wants_row(batch, first + i)) {
                *rows++ = i;
            }
        }
    }
    for (const GraphBuilder::Visible & visible : g.visibles) {
        int32_t * range = static_cast<int32_t *>(visible.tensor->data);
        int32_t low     = 0; // first visible cell; only moves forward because positions grow
        for (int32_t i = 0; i < n; ++i) {
            if (visible.window > 0) {
                while (positions[static_cast<size_t>(head + i)] - positions[static_cast<size_t>(low)] >=
                       visible.window) {
                    ++low;
                }
            }
            *range++ = low;
            *range++ = head + i + 1;
        }
    }
}

const float * Context::logits(int32_t row) const {
    if (row < 0 || row >= n_output_rows_) {
        return nullptr;
    }
    return static_cast<const float *>(ggml_backend_buffer_get_base(logits_buffer_)) +
           static_cast<size_t>(row) * static_cast<size_t>(model_->hparams().n_vocab);
}

const float * Context::logits_maxima(int32_t row) const {
    if (row < 0 || row >= n_output_rows_) {
        return nullptr;
    }
    return logits_maxima_.data() +
           static_cast<size_t>(row) * static_cast<size_t>(n_row_blocks(model_->hparams().n_vocab));
}

void Context::set_taps(const int32_t * layers, int32_t n) {
    const int32_t n_layer = model_->hparams().n_layer;
    check_range("number of taps", n, 0, n_layer + 2);
    std::vector<int32_t> wanted;
    for (int32_t i = 0; i < n; ++i) {
        check_range("tap layer", layers[i], tap_final, n_layer);
        if (std::find(wanted.begin(), wanted.end(), layers[i]) != wanted.end()) {
            throw Error(PYSPEC_OPTION, format("tap layer %d is given twice", layers[i]));
        }
        wanted.push_back(layers[i]);
    }
    tap_layers_ = std::move(wanted);
}

const float * Context::taps(int32_t i) const {
    if (i < 0 || static_cast<size_t>(i) >= tap_layers_of_rows_.size()) {
        return nullptr;
    }
    return tap_rows_[static_cast<size_t>(i)].data();
}

bool Context::can_remove(int32_t p0, int32_t p1) const {
    const int32_t from = p0 < 0 ? 0 : p0;
    const int32_t to   = p1 < 0 ? INT32_MAX : p1;
    return from >= to || cache_->can_remove(from, to);
}

bool Context::remove(int32_t p0, int32_t p1) {
    const int32_t from = p0 < 0 ? 0 : p0;
    const int32_t to   = p1 < 0 ? INT32_MAX : p1;
    return from >= to || cache_->remove(from, to);
}

Rollback Context::probe_rollback() {
    const int32_t tokens[] = {0, 0};
    cache_->clear();
    decode({tokens, 2, nullptr, nullptr}, nullptr);
    const bool part = remove(1, -1);
    const bool all  = remove(-1, -1);
    cache_->clear();
    n_output_rows_ = 0;
    tap_layers_of_rows_.clear();
    return part ? Rollback::part : all ? Rollback::full : Rollback::no;
}

ContextStats Context::stats() const {
    ContextStats stats  = stats_;
    stats.n_graph_build = graphs_->n_build();
    stats.n_graph_reuse = graphs_->n_reuse();
    return stats;
}

} // namespace pyspec
