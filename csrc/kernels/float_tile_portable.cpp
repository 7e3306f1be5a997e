// Products of float weights for the set portable.

#include "ggml.h"

#define PYSPEC_TILE_SET portable
#include "kernels/simd_portable.inc"
// after the vectors
#include "kernels/float_tile.inc"
