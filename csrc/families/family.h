// An architecture family: reads its hyper-parameters and weights from a file and builds its graph.
//
// Adding a family: one file that derives from Family, and one line in registry.cpp.
#pragma once

#include "families/hparams.h"
#include "graph/graph_builder.h"
#include "weights/tensor_loader.h"

#include <memory>
#include <string_view>
#include <vector>

namespace pyspec {

class Family {
public:
    explicit Family(Hparams h) : h_(std::move(h)) {}
    virtual ~Family() = default;

    const Hparams & hparams() const { return h_; }

    // Builds the graph of one micro-batch: reads g.tokens()/positions()/visible(), writes the cache, sets g.logits
    // (unless no rows are wanted) and taps. Called by several contexts at once; must not change the family.
    virtual void build(GraphBuilder & g) const = 0;

    // The rotation that rows of K of a layer are stored with, in a context of n_ctx tokens.
    virtual RopeParams cache_rope(int32_t layer, int32_t n_ctx) const {
        (void)layer;
        (void)n_ctx;
        return h_.rope;
    }

    // Number that distinguishes caches which must not be mixed although their shapes agree (long-context rope
    // variants).
    virtual int32_t cache_variant(int32_t n_ctx) const {
        (void)n_ctx;
        return 0;
    }

protected:
    Hparams h_;
};

using FamilyFactory = std::unique_ptr<Family> (*)(const ModelFile & file, TensorLoader & tensors);

struct FamilyEntry {
    const char * architecture;
    FamilyFactory make;
};

const std::vector<FamilyEntry> & families();
// Throws UNSUPPORTED naming the architecture and listing the known ones.
const FamilyEntry & find_family(const ModelFile & file);

} // namespace pyspec
