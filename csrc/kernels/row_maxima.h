// Maxima of the blocks of logits rows (support/row_blocks.h), so that who looks for the best need not read whole rows.
#pragma once

#include "kernels/kernel_run.h"

#include "ggml.h"

namespace pyspec {

// x f32 {n, rows} -> f32 {n_row_blocks(n), rows}
ggml_tensor * row_maxima(ggml_context * ctx, KernelRun * run, ggml_tensor * x);

} // namespace pyspec
