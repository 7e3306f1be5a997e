// Products of float weights for the set avx512_vnni.
#if defined(__x86_64__)

#include "ggml.h"

#define PYSPEC_TILE_SET avx512_vnni
#include "kernels/simd_avx512.inc"
// after the vectors
#include "kernels/float_tile.inc"

#endif
