// Runs a packed product the way the library does. The one place to change when the library's way changes.
#pragma once

#include "team.h"

#include "kernels/activation_block.h"
#include "kernels/packed_matrix.h"

#include <cstdint>
#include <vector>

namespace pyspec::bench {

// w {n_in, n_out} times x f32 {n_in, n_columns}, rows contiguous -> y f32 {n_out, n_columns}. rows: space for the
// quantised x, made larger when it is too small.
void multiply_packed(Team & team, const PackedMatrix & w, const float * x, int64_t n_columns,
                     std::vector<ActivationBlock> & rows, float * y);

} // namespace pyspec::bench
