#include "roofline.h"

#include "roofline_loops.h"
#include "timing.h"

#include "support/error.h"
#include "support/mapped_file.h"

#include <algorithm>
#include <cstring>

namespace pyspec::bench {

namespace {

constexpr double dot_pass_ns = 20e6; // of a pass, about: long enough to hide starting and ending together

const RooflineLoops & loops_of(const TileSet & set) {
    const RooflineLoops * const all[] = {
#if defined(__x86_64__)
        &avx512_vnni_loops,
        &avx2_vnni_loops,
        &avx2_loops,
#endif
        &portable_loops,
    };
    for (const RooflineLoops * loops : all) {
        if (std::strcmp(loops->kernels, set.name) == 0) {
            return *loops;
        }
    }
    throw Error(PYSPEC_UNSUPPORTED, format("there is no roofline for the kernels '%s'", set.name));
}

Rate rate_of(double amount, const std::vector<double> & ns) {
    return {amount / *std::min_element(ns.begin(), ns.end()), amount / median(ns)};
}

} // namespace

Roofline measure_roofline(Team & team, const TileSet & set, size_t read_bytes, int n_passes) {
    const RooflineLoops & loops = loops_of(set);
    const size_t n_threads      = static_cast<size_t>(team.size());
    const size_t part           = std::max<size_t>(4096, read_bytes / n_threads / 4096 * 4096);
    const AlignedBuffer buffer  = memory_for(part * n_threads);
    uint8_t * data              = static_cast<uint8_t *>(buffer.data());

    // Written by the thread that reads it: pages then lie near its processor.
    team.run([&](int thread, int) { std::memset(data + static_cast<size_t>(thread) * part, thread + 1, part); });
    const Team::Work read = [&](int thread, int) {
        const size_t at = static_cast<size_t>(thread);
        (void)loops.read(data + at * part, part);
    };
    uint64_t rounds      = 1000;
    const Team::Work dot = [&](int, int) { loops.dot(rounds); };

    team.run(read);
    std::vector<double> ns;
    for (int pass = 0; pass < n_passes; ++pass) {
        ns.push_back(time_ns([&] { team.run(read); }));
    }
    Roofline found;
    found.read = rate_of(static_cast<double>(part * n_threads), ns);

    // The shortest of some passes: one that was interrupted says nothing about the number of rounds.
    for (double shortest = 0.0; shortest < dot_pass_ns / 2; rounds *= 2) {
        shortest = dot_pass_ns;
        for (int pass = 0; pass < 3; ++pass) {
            shortest = std::min(shortest, time_ns([&] { team.run(dot); }));
        }
    }
    ns.clear();
    for (int pass = 0; pass < n_passes; ++pass) {
        ns.push_back(time_ns([&] { team.run(dot); }));
    }
    found.dot = rate_of(static_cast<double>(rounds) * static_cast<double>(loops.dot_macs * n_threads), ns);
    return found;
}

} // namespace pyspec::bench
