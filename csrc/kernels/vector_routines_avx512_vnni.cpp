// Attention and operations on rows for the set avx512_vnni.
#if defined(__x86_64__)

#include "ggml.h"

#define PYSPEC_TILE_SET avx512_vnni
#include "kernels/simd_avx512.inc"
// after the vectors
#include "kernels/simd_exponential.inc"
// after exp
#include "kernels/attention_partition.inc"
#include "kernels/row_operations.inc"

#endif
