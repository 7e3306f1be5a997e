// The two loops behind a roofline, for one instruction set: reading memory, and dot products of 8-bit numbers.
//
// Included by files that are compiled for other instruction sets than the rest: nothing here may be an inline function,
// because the linker keeps one copy of those for everybody.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pyspec::bench {

struct RooflineLoops {
    const char * kernels; // name of the tile set that uses the same instructions
    // Reads n bytes (a multiple of 4096, aligned to 64) once, in order. The result depends on all of them, so that
    // nothing is left out.
    uint64_t (*read)(const uint8_t * data, size_t n);
    // `rounds` times dot_macs multiply-accumulates of 8-bit numbers on operands that are at hand.
    void (*dot)(uint64_t rounds);
    uint64_t dot_macs;
};

extern const RooflineLoops avx512_vnni_loops; // only where the compiler knows x86-64
extern const RooflineLoops avx2_vnni_loops;
extern const RooflineLoops avx2_loops;
extern const RooflineLoops portable_loops;

} // namespace pyspec::bench
