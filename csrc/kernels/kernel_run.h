// What graph nodes need while they run, besides their tensors: the threads and the counters. One for each context; it
// outlives the context's graphs.
//
// ggml runs the graph with one thread; nodes that have work for more hand it to the pool. So a graph has as many
// meeting points of threads as it has large nodes, and none of ggml's, where waiting threads never let go of their
// processor.
#pragma once

#include "support/thread_pool.h"

#include "ggml.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace pyspec {

// How often each kernel was run: products by type of the weights, one for each matrix (or stack of experts) of a node.
// Others may look while they grow.
struct KernelCounters {
    using Count  = std::atomic<int64_t>;
    using Counts = std::array<Count, GGML_TYPE_COUNT>;
    Counts packed{}; // on packed weights
    Counts plain{};  // on weights as they lie in the file
    Counts packed_experts{};
    Counts plain_experts{};
    Count attention{0};
};

inline void count(KernelCounters::Count & counter) {
    counter.fetch_add(1, std::memory_order_relaxed);
}
inline void count(KernelCounters::Counts & counters, ggml_type type) {
    count(counters[static_cast<size_t>(type)]);
}

// {"product.q4_K": 1680, ...}: see pyspec_context_kernel_runs.
std::string kernel_runs_json(const KernelCounters & counters);

struct KernelRun {
    ThreadPool * threads = nullptr;
    KernelCounters counters;

    // work(item, thread) for item = 0 .. n - 1, items of about `cost` multiply-accumulates (or as much) each: several
    // at a time where they are small, and on the calling thread when all together are not worth waking others.
    template <typename Work> void for_each(int64_t n, int64_t cost, const Work & work) {
        const int64_t at_once  = std::max<int64_t>(1, least_cost / std::max<int64_t>(1, cost));
        const int64_t n_chunks = (n + at_once - 1) / at_once;
        threads->run(n_chunks, [&](int64_t chunk, int thread) {
            for (int64_t i = chunk * at_once; i < std::min(n, (chunk + 1) * at_once); ++i) {
                work(i, thread);
            }
        });
    }

    // Of a chunk: some microseconds, so that taking it costs little beside it, and not so much that a cancelled call
    // would have to wait for it (0.05 s of the slowest kernel).
    static constexpr int64_t least_cost = 200'000;
    static constexpr int64_t most_cost  = 100'000'000;
};

} // namespace pyspec
