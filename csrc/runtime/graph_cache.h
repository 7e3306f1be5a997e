// Compute graphs that are kept between decodes of the same shape, all living in one compute buffer.
//
// A graph's tensors keep their addresses as long as the buffer is not replaced by a larger one; then every kept graph
// is dropped. Graphs of different shapes overlap in the buffer, which is fine because only one runs at a time and each
// run sets all its inputs.
#pragma once

#include "families/family.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"

#include <list>
#include <memory>
#include <vector>

namespace pyspec {

class BuiltGraph {
public:
    BuiltGraph(const Family & family, const KvCache & cache, const GraphShape & shape, const GraphOptions & options);
    ~BuiltGraph();
    BuiltGraph(const BuiltGraph &)             = delete;
    BuiltGraph & operator=(const BuiltGraph &) = delete;

    const GraphShape & shape() const { return shape_; }
    GraphBuilder & builder() { return *builder_; }
    ggml_cgraph * graph() { return graph_; }

private:
    GraphShape shape_;
    std::unique_ptr<uint8_t[]> arena_;
    ggml_context * ctx_  = nullptr;
    ggml_cgraph * graph_ = nullptr;
    std::unique_ptr<GraphBuilder> builder_;
};

class GraphCache {
public:
    GraphCache(const Family & family, const KvCache & cache, const GraphOptions & options);
    ~GraphCache();

    // Bytes of compute buffer that a graph of this shape needs. Allocates nothing.
    size_t measure(const GraphShape & shape);
    // Makes room for graphs of this shape. Throws OUT_OF_MEMORY.
    void reserve(const GraphShape & shape);
    // A ready graph of this shape, built or kept. Its logits lie in logits_buffer, outside the compute buffer: the
    // caller points them at the right rows before each run. Throws OUT_OF_MEMORY.
    BuiltGraph & get(const GraphShape & shape, ggml_backend_buffer_t logits_buffer);

    int64_t n_build() const { return n_build_; }
    int64_t n_reuse() const { return n_reuse_; }
    size_t buffer_bytes() const { return ggml_gallocr_get_buffer_size(allocator_, 0); }

private:
    const Family & family_;
    const KvCache & cache_;
    const GraphOptions options_;
    ggml_gallocr_t allocator_;
    std::list<std::unique_ptr<BuiltGraph>> graphs_; // most recently used first
    int64_t n_build_ = 0;
    int64_t n_reuse_ = 0;
};

} // namespace pyspec
