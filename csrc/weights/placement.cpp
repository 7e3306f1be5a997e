#include "weights/placement.h"

#include "support/error.h"

namespace pyspec {

Placement place_weights(const std::string & device, bool use_mmap, uint64_t weight_bytes, uint64_t available_bytes) {
    if (device != "cpu") {
        throw Error(PYSPEC_UNSUPPORTED,
                    format("device '%s' is not available: this version of pyspec computes on the CPU "
                           "only (use device 'cpu')",
                           device.c_str()));
    }
    if (use_mmap) {
        return Placement::mapped;
    }
    if (available_bytes != 0 && weight_bytes > available_bytes) {
        throw Error(PYSPEC_OUT_OF_MEMORY,
                    format("the weights need %.0f MB but %.0f MB are available; mapping the file "
                           "without packing (use_mmap true, pack_weights false) needs no copy",
                           static_cast<double>(weight_bytes) / 1e6, static_cast<double>(available_bytes) / 1e6));
    }
    return Placement::read;
}

void check_packing_fits(uint64_t packed_bytes, uint64_t available_bytes) {
    if (available_bytes != 0 && packed_bytes > available_bytes) {
        throw Error(
            PYSPEC_OUT_OF_MEMORY,
            format("the weights need %.0f MB in memory but %.0f MB are available; without packing "
                   "(pack_weights false, on the command line --no-pack) the mapped file is computed on: slower, "
                   "but with no copy",
                   static_cast<double>(packed_bytes) / 1e6, static_cast<double>(available_bytes) / 1e6));
    }
}

} // namespace pyspec
