#include "kernels/instruction_set.h"

#include "support/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace pyspec {

namespace {

struct Entry {
    const TileSet * set;
    bool runs;
};

#if defined(__x86_64__)
// What the processor has and the operating system saves, asked for directly: compilers differ in the names they know.
struct Processor {
    bool v3          = false; // x86-64-v3 and F16C
    bool v4          = false; // x86-64-v4
    bool avx_vnni    = false;
    bool avx512_vnni = false;

    Processor() {
        unsigned a = 0;
        unsigned b = 0;
        unsigned c = 0;
        unsigned d = 0;
        if (__get_cpuid(1, &a, &b, &c, &d) == 0) {
            return;
        }
        const auto all = [](unsigned word, std::initializer_list<int> bits) {
            for (const int bit : bits) {
                if ((word >> bit & 1u) == 0) {
                    return false;
                }
            }
            return true;
        };
        // SSE3, SSSE3, FMA, CX16, SSE4.1, SSE4.2, MOVBE, POPCNT, OSXSAVE, AVX, F16C
        if (!all(c, {0, 9, 12, 13, 19, 20, 22, 23, 27, 28, 29})) {
            return;
        }
        unsigned saved = 0;
        unsigned upper = 0;
        __asm__("xgetbv" : "=a"(saved), "=d"(upper) : "c"(0));
        if (!all(saved, {1, 2}) || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) {
            return;
        }
        const unsigned features = b;
        const bool vnni         = all(c, {11});
        const unsigned leaves   = a;
        if (__get_cpuid(0x80000001u, &a, &b, &c, &d) == 0) {
            return;
        }
        v3          = all(features, {3, 5, 8}) && all(c, {5});                            // BMI1, AVX2, BMI2; LZCNT
        v4          = v3 && all(saved, {5, 6, 7}) && all(features, {16, 17, 28, 30, 31}); // F, DQ, CD, BW, VL
        avx512_vnni = v4 && vnni;
        if (leaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) {
            avx_vnni = v3 && all(a, {4});
        }
    }
};
#endif

std::vector<Entry> all_sets() {
    std::vector<Entry> sets;
#if defined(__x86_64__)
    const Processor cpu;
    sets.push_back({&avx512_vnni_tiles, cpu.avx512_vnni});
    sets.push_back({&avx2_vnni_tiles, cpu.avx_vnni});
    sets.push_back({&avx2_tiles, cpu.v3});
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
                throw Error(PYSPEC_UNSUPPORTED,
                            format("this processor cannot run the kernels '%s'; use auto (here: %s)", name.c_str(),
                                   available_tile_sets().front()->name));
            }
            return *entry.set;
        }
        known += ", ";
        known += entry.set->name;
    }
    throw Error(PYSPEC_OPTION, format("kernels '%s' are unknown; choose from auto%s", name.c_str(), known.c_str()));
}

} // namespace pyspec
