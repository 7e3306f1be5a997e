// The angles that a rotary position embedding turns K and Q by.
#pragma once

#include "graph/rope_params.h"

#include <vector>

namespace pyspec {

// Radians per position of each pair {n_rot / 2}, as the graphs' rope has them: an angle is proportional to the
// position, whatever the scaling. The magnitude of yarn is not part of it.
std::vector<double> rope_frequencies(const RopeParams & params);

} // namespace pyspec
