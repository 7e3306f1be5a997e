// Where the weights of a model go: a function of the device, the wish for mapping and the memory that is available.
#pragma once

#include <cstdint>
#include <string>

namespace pyspec {

enum class Placement {
    mapped, // the file's pages, shared with the page cache and other processes
    read,   // a copy in memory
};

// Throws UNSUPPORTED for a device this build cannot compute on, OUT_OF_MEMORY (with both numbers) when a copy would not
// fit. available_bytes 0 means unknown.
Placement place_weights(const std::string & device, bool use_mmap, uint64_t weight_bytes, uint64_t available_bytes);

// Throws OUT_OF_MEMORY when the packed form of the weights would not fit. available_bytes 0 means unknown.
void check_packing_fits(uint64_t packed_bytes, uint64_t available_bytes);

} // namespace pyspec
