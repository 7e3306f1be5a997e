// Products of float weights for the set avx2.
#if defined(__x86_64__)

#include "ggml.h"

#define PYSPEC_TILE_SET avx2
#include "kernels/simd_avx2.inc"
// after the vectors
#include "kernels/float_tile.inc"

#endif
