// Inner routines of quantised products: one weight row against a tile of activation rows. Built for AVX-512 with VNNI.
#pragma once

#include "ggml.h"

#include <cstddef>

namespace pyspec {

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512VNNI__) &&               \
    defined(__F16C__)
#define PYSPEC_HAVE_DOT_TILES 1
#endif

constexpr int max_tile_columns = 8;

// out[c] = weight row . activation row c, for c < n_columns (1 .. max_tile_columns). n values per row; rows of x are
// x_stride bytes apart. The result of a column does not depend on the others.
using DotTile = void (*)(const void * weight_row, const char * x, size_t x_stride, size_t n, int n_columns,
                         float * out);

// The routine for a weight type; null when there is none.
DotTile dot_tile(ggml_type type);

DotTile dot_tile_blocks32(ggml_type type);
DotTile dot_tile_blocks256(ggml_type type);

} // namespace pyspec
