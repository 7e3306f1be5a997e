// Cancel flag and progress of one long call, shared between the thread that works and threads that watch.
#pragma once

#include "support/error.h"

#include <atomic>

namespace pyspec {

struct Job {
    std::atomic<bool> cancelled{false};
    std::atomic<double> progress{0.0};
};

// Throws Error(PYSPEC_CANCELLED) when the job (may be null) has been cancelled.
inline void check_cancelled(const Job * job, const char * what) {
    if (job != nullptr && job->cancelled.load(std::memory_order_relaxed)) {
        throw Error(PYSPEC_CANCELLED, std::string(what) + " was cancelled");
    }
}

} // namespace pyspec
