// Indices of the k largest values of each row, largest first, lowest index on ties (ggml's own op leaves ties open).
#pragma once

#include "kernels/kernel_run.h"

#include "ggml.h"

namespace pyspec {

// x f32 {n, rows} -> I32 {k, rows}
ggml_tensor * top_k(ggml_context * ctx, KernelRun * run, ggml_tensor * x, int32_t k);

} // namespace pyspec
