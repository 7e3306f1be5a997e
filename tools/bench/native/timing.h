// Small things that every measurement needs.
#pragma once

#include "support/mapped_file.h"

#include <chrono>
#include <cstddef>
#include <vector>

namespace pyspec::bench {

// Nanoseconds that a call takes.
template <typename Call> double time_ns(const Call & call) {
    const auto start = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

// Of at least one value; the mean of the middle two of an even number.
double median(std::vector<double> values);

// Bytes of the last-level cache that one processor sees; 32 MiB when the system does not say.
size_t cache_bytes();

// Memory aligned to 64 bytes. Throws OUT_OF_MEMORY when more is asked for than can be used without swapping: the system
// would hand it out, and end the process when it is touched.
AlignedBuffer memory_for(size_t bytes);

} // namespace pyspec::bench
