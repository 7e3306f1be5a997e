// Maxima of the blocks of logits rows (support/row_blocks.h), each by the thread that has just computed the block.
#pragma once

#include "ggml.h"

namespace pyspec {

// x f32 {n, rows} -> f32 {n_row_blocks(n), rows}
ggml_tensor * row_maxima(ggml_context * ctx, ggml_tensor * x);

} // namespace pyspec
