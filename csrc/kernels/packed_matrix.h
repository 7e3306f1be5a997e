// A weight matrix in packed form, as product nodes find it: hung on the `extra` pointer of its tensor.
#pragma once

#include "kernels/packed_format.h"
#include "kernels/panel_tile.h"

#include "ggml.h"

namespace pyspec {

struct PackedMatrix {
    ggml_type type = GGML_TYPE_F32;
    int64_t n_in   = 0;
    int64_t n_out  = 0;
    PanelLayout layout;
    const uint8_t * data = nullptr; // n_panels(n_out) panels, aligned to 64; null in a model without weights
    PanelTile tile       = nullptr;
    int max_columns      = 1;

    PackedMatrix(ggml_type type_, int64_t n_in_, int64_t n_out_, const TileSet & set)
        : type(type_), n_in(n_in_), n_out(n_out_), layout(panel_layout(type_, n_in_)), tile(set.tile(type_)),
          max_columns(set.max_columns) {}

    size_t bytes() const { return layout.bytes * static_cast<size_t>(n_panels(n_out)); }
};

// The packed form of a weight tensor, or null.
inline const PackedMatrix * packed_of(const ggml_tensor * weight) {
    return static_cast<const PackedMatrix *>(weight->extra);
}

} // namespace pyspec
