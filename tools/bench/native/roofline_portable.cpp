// Plain C++, as fast as the compiler makes it for what the rest is built for.
#include "roofline_loops.h"

#include <cstring>

namespace pyspec::bench {

namespace {

uint64_t read(const uint8_t * data, size_t n) {
    uint64_t sum[8] = {};
    for (size_t i = 0; i < n; i += sizeof sum) {
        uint64_t values[8];
        std::memcpy(values, data + i, sizeof values);
        for (int j = 0; j < 8; ++j) {
            sum[j] ^= values[j];
        }
    }
    uint64_t all = 0;
    for (const uint64_t part : sum) {
        all ^= part;
    }
    return all;
}

constexpr int n_values = 4096; // in the first-level cache

void dot(uint64_t rounds) {
    uint8_t w[n_values];
    int8_t y[n_values];
    std::memset(w, 3, sizeof w);
    std::memset(y, -5, sizeof y);
    for (uint64_t i = 0; i < rounds; ++i) {
        __asm__ volatile("" : : "r"(w), "r"(y) : "memory"); // they may have changed
        int32_t sum = 0;
        for (int j = 0; j < n_values; ++j) {
            sum += w[j] * y[j];
        }
        __asm__ volatile("" : : "r"(sum)); // it is wanted
    }
}

} // namespace

extern const RooflineLoops portable_loops{"portable", read, dot, n_values};

} // namespace pyspec::bench
