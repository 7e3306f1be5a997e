// A weight matrix, or a stack of them (experts), in packed form, as product nodes find it: hung on the `extra` pointer
// of its tensor.
#pragma once

#include "kernels/packed_format.h"
#include "kernels/panel_tile.h"

#include "ggml.h"

#include <algorithm>

namespace pyspec {

struct PackedMatrix {
    ggml_type type     = GGML_TYPE_F32;
    int64_t n_in       = 0;
    int64_t n_out      = 0;
    int64_t n_matrices = 1;
    PanelLayout layout;
    // n_panels(n_out) panels of each matrix, aligned to 64; null in a model without weights
    const uint8_t * data = nullptr;
    PanelTile tile       = nullptr;
    int max_columns      = 1;
    bool takes_floats    = false; // the tile's columns are rows of f32, else of ActivationBlocks

    PackedMatrix(ggml_type type_, int64_t n_in_, int64_t n_out_, int64_t n_matrices_, const TileSet & set)
        : type(type_), n_in(n_in_), n_out(n_out_), n_matrices(n_matrices_), layout(panel_layout(type_, n_in_)),
          tile(set.tile(type_)), max_columns(set.max_columns), takes_floats(set.floats->tile(type_) != nullptr) {
        if (takes_floats) {
            tile        = set.floats->tile(type_);
            max_columns = std::min(max_columns, set.floats->max_columns);
        }
    }

    size_t bytes() const { return layout.bytes * static_cast<size_t>(n_panels(n_out) * n_matrices); }
    const uint8_t * matrix(int64_t index) const {
        return data + layout.bytes * static_cast<size_t>(n_panels(n_out) * index);
    }
};

// The packed form of a weight tensor, or null.
inline const PackedMatrix * packed_of(const ggml_tensor * weight) {
    return static_cast<const PackedMatrix *>(weight->extra);
}

} // namespace pyspec
