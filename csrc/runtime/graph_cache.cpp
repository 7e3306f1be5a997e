#include "runtime/graph_cache.h"

#include "support/error.h"

namespace pyspec {

namespace {

// Widths 1 to 17 of a round, twice over for a change of n_kv, and a few prompt shapes.
constexpr size_t max_kept = 40;

// Upper bound of nodes and leafs: generous per layer.
size_t node_bound(const Hparams & h) {
    return 256 + static_cast<size_t>(h.n_layer) * 96;
}

// Logits are written to the context's output rows. With an address already, the allocator leaves them alone; the
// address is replaced before a graph runs.
void place_logits(BuiltGraph & built, ggml_backend_buffer_t buffer) {
    if (ggml_tensor * logits = built.builder().logits) {
        logits->buffer = buffer;
        logits->data   = reinterpret_cast<void *>(uintptr_t{1} << 46);
    }
}

} // namespace

BuiltGraph::BuiltGraph(const Family & family, const KvCache & cache, const GraphShape & shape,
                       const GraphOptions & options)
    : shape_(shape) {
    const size_t n_nodes = node_bound(family.hparams());
    const size_t n_bytes = n_nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(n_nodes, false);
    arena_.reset(new uint8_t[n_bytes]); // not cleared: most of it is never touched
    ggml_init_params params{n_bytes, arena_.get(), true};
    ctx_ = ggml_init(params);
    if (ctx_ == nullptr) {
        throw Error(PYSPEC_OUT_OF_MEMORY, "cannot reserve a compute graph");
    }
    graph_   = ggml_new_graph_custom(ctx_, n_nodes, false);
    builder_ = std::make_unique<GraphBuilder>(ctx_, graph_, shape_, cache, options);
    family.build(*builder_);
}

BuiltGraph::~BuiltGraph() {
    ggml_free(ctx_);
}

GraphCache::GraphCache(const Family & family, const KvCache & cache, const GraphOptions & options)
    : family_(family), cache_(cache), options_(options), allocator_(ggml_gallocr_new(ggml_backend_cpu_buffer_type())) {
    if (allocator_ == nullptr) {
        throw Error(PYSPEC_OUT_OF_MEMORY, "cannot reserve the graph allocator");
    }
}

GraphCache::~GraphCache() {
    ggml_gallocr_free(allocator_);
}

size_t GraphCache::measure(const GraphShape & shape) {
    BuiltGraph built(family_, cache_, shape, options_);
    place_logits(built, nullptr);
    ggml_gallocr_t measurer = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    size_t bytes            = 0;
    ggml_gallocr_reserve_n_size(measurer, built.graph(), nullptr, nullptr, &bytes);
    ggml_gallocr_free(measurer);
    return bytes;
}

void GraphCache::reserve(const GraphShape & shape) {
    BuiltGraph built(family_, cache_, shape, options_);
    place_logits(built, nullptr);
    if (!ggml_gallocr_reserve(allocator_, built.graph())) {
        throw Error(PYSPEC_OUT_OF_MEMORY, format("cannot reserve the compute buffer for %d tokens over %d cells",
                                                 shape.n_tokens, shape.n_kv));
    }
    graphs_.clear();
}

BuiltGraph & GraphCache::get(const GraphShape & shape, ggml_backend_buffer_t logits_buffer) {
    for (auto it = graphs_.begin(); it != graphs_.end(); ++it) {
        if ((*it)->shape() == shape) {
            graphs_.splice(graphs_.begin(), graphs_, it);
            ++n_reuse_;
            return *graphs_.front();
        }
    }
    auto built = std::make_unique<BuiltGraph>(family_, cache_, shape, options_);
    place_logits(*built, logits_buffer);
    const size_t before = buffer_bytes();
    // Always planned anew: the allocator would reuse the plan of any graph with as many nodes, even of another
    // topology.
    if (!ggml_gallocr_reserve(allocator_, built->graph()) || !ggml_gallocr_alloc_graph(allocator_, built->graph())) {
        graphs_.clear();
        throw Error(PYSPEC_OUT_OF_MEMORY, format("cannot reserve the compute buffer for %d tokens over %d cells",
                                                 shape.n_tokens, shape.n_kv));
    }
    if (buffer_bytes() != before) {
        graphs_.clear();
    }
    while (graphs_.size() >= max_kept) {
        graphs_.pop_back();
    }
    graphs_.push_front(std::move(built));
    ++n_build_;
    return *graphs_.front();
}

} // namespace pyspec
