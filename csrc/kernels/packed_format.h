// Packed weights: panels of 16 rows side by side, so that the 16 lanes of a vector are 16 rows.
//
// A panel holds three regions one after the other, each for all blocks of 32 values along a row:
//   quants   the GGUF bytes of the 16 rows, four at a time: bytes 4p .. 4p+3 of row 0, of row 1, ... of row 15
//   scales   per block 16 numbers for the rows (f16 for blocks of 32; bytes for the groups of K-quants), then their
//            offsets likewise where the type has them
//   supers   K-quants: per 256 values 16 f16 scales, then 16 f16 offsets where the type has them
// Weights that are floats (F16, BF16, F32) are all quants: value 0 of row 0, of row 1, ... of row 15, then value 1, ...
// The bits of a weight are kept, only their places change; rows after the last are zeros. All kernels read this form.
#pragma once

#include "ggml.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace pyspec {

constexpr int64_t panel_rows = 16;

// Where the regions of a panel begin, in bytes.
struct PanelLayout {
    size_t n_blocks  = 0; // of 32 values
    size_t quants_at = 0;
    size_t scales_at = 0;
    size_t supers_at = 0;
    size_t bytes     = 0; // distance between panels, multiple of 64
    // Bytes of the regions for one block, of the supers for eight.
    size_t quant_bytes = 0;
    size_t scale_bytes = 0;
    size_t super_bytes = 0;
};

// Values of a block as unpack_block gives it: the GGUF type's own, and 32 of the types that have none.
inline int64_t block_values(ggml_type type) {
    return std::max<int64_t>(32, ggml_blck_size(type));
}
// Can matrices of this type and row length be packed?
bool is_packable(ggml_type type, int64_t n_in);
PanelLayout panel_layout(ggml_type type, int64_t n_in);
inline int64_t n_panels(int64_t n_out) {
    return (n_out + panel_rows - 1) / panel_rows;
}
// Bytes of a packed matrix {n_in, n_out}.
inline size_t packed_bytes(ggml_type type, int64_t n_in, int64_t n_out) {
    return panel_layout(type, n_in).bytes * static_cast<size_t>(n_panels(n_out));
}

// rows: n_rows (1 .. 16) rows as they lie in a GGUF file, one after the other. panel: panel_layout().bytes bytes.
void pack_panel(ggml_type type, int64_t n_in, const void * rows, int64_t n_rows, uint8_t * panel);
// Block number `block` (of block_values(type) values) of row `row` (0 .. 15) of a panel, back in the GGUF form. At most
// max_gguf_block bytes.
constexpr size_t max_gguf_block = 210;
void unpack_block(ggml_type type, const PanelLayout & layout, const uint8_t * panel, int64_t row, int64_t block,
                  void * out);

} // namespace pyspec
