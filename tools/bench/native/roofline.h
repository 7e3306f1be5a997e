// What the machine can do at most: read memory, and multiply 8-bit numbers.
#pragma once

#include "team.h"

#include "kernels/instruction_set.h"

#include <cstddef>

namespace pyspec::bench {

struct Rate {
    double best   = 0.0; // over the passes
    double median = 0.0;
};

struct Roofline {
    Rate read; // GB/s of all threads together, each reading its own part
    Rate dot;  // 1e9 multiply-accumulates per second of all threads together
};

// read_bytes: of the memory that is read in one pass; much more than the caches hold, or it is they that are measured.
// n_passes of each loop. Throws UNSUPPORTED for a set without loops, OUT_OF_MEMORY.
Roofline measure_roofline(Team & team, const TileSet & set, size_t read_bytes, int n_passes);

} // namespace pyspec::bench
