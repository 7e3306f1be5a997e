// Attention and operations on rows for the set portable.

#include "ggml.h"

#define PYSPEC_TILE_SET portable
#include "kernels/simd_portable.inc"
// after the vectors
#include "kernels/simd_exponential.inc"
// after exp
#include "kernels/attention_partition.inc"
#include "kernels/row_operations.inc"
