// Threads for kernel nodes outside of a context.
#pragma once

#include "kernels/kernel_run.h"

#include <map>
#include <memory>

// Lives until the program ends; the same for the same number of threads.
inline pyspec::KernelRun & run_with(int n_threads) {
    struct Entry {
        std::shared_ptr<pyspec::ThreadPool> threads;
        pyspec::KernelRun run;
    };
    static std::map<int, std::unique_ptr<Entry>> entries;
    std::unique_ptr<Entry> & entry = entries[n_threads];
    if (entry == nullptr) {
        entry              = std::make_unique<Entry>();
        entry->threads     = pyspec::ThreadPool::get(n_threads);
        entry->run.threads = entry->threads.get();
    }
    return entry->run;
}
