#include "kernels/instruction_set.h"

#include "support/error.h"

namespace pyspec {

namespace {

struct Entry {
    const TileSet * set;
    bool runs;
};

std::vector<Entry> all_sets() {
    std::vector<Entry> sets;
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
    sets.push_back({&avx512_vnni_tiles, avx512});
    sets.push_back({&avx2_vnni_tiles, avx2 && __builtin_cpu_supports("avxvnni")});
    sets.push_back({&avx2_tiles, avx2});
#endif
    sets.push_back({&portable_tiles, true});
    return sets;
}

} // namespace

std::vector<const TileSet *> available_tile_sets() {
    std::vector<const TileSet *> sets;
    for (const Entry & entry : all_sets()) {
        if (entry.runs) {
            sets.push_back(entry.set);
        }
    }
    return sets;
}

const TileSet & find_tile_set(const std::string & name) {
    if (name.empty() || name == "auto") {
        return *available_tile_sets().front();
    }
    std::string known;
    for (const Entry & entry : all_sets()) {
        if (name == entry.set->name) {
            if (!entry.runs) {
                throw Error(PYSPEC_UNSUPPORTED, format("this processor cannot run the kernels '%s'", name.c_str()));
            }
            return *entry.set;
        }
        known += ", ";
        known += entry.set->name;
    }
    throw Error(PYSPEC_OPTION, format("kernels '%s' are unknown; choose from auto%s", name.c_str(), known.c_str()));
}

} // namespace pyspec
