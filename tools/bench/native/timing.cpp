#include "timing.h"

#include "support/error.h"
#include "support/system.h"

#include <algorithm>

#include <unistd.h>

namespace pyspec::bench {

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

size_t cache_bytes() {
#if defined(_SC_LEVEL3_CACHE_SIZE)
    for (const int level : {_SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE}) {
        if (const long found = sysconf(level); found > 0) {
            return static_cast<size_t>(found);
        }
    }
#endif
    return size_t{32} << 20;
}

AlignedBuffer memory_for(size_t bytes) {
    const uint64_t available = available_memory_bytes();
    if (available != 0 && bytes > available) {
        throw Error(PYSPEC_OUT_OF_MEMORY,
                    format("%zu MiB of memory are needed and %zu are available; ask for less with --span", bytes >> 20,
                           static_cast<size_t>(available >> 20)));
    }
    return AlignedBuffer(bytes);
}

} // namespace pyspec::bench
