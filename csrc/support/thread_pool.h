// Compute threads shared by every context of the process that asks for the same number of threads.
//
// One pool per size, reference counted. Threads sleep on a condition variable as soon as a graph is finished (ggml's
// default keeps them spinning for about 170 ms, which steals the core from whoever works next). One graph runs on a
// pool at a time; a second context waits for its turn and can be cancelled while it waits.
#pragma once

#include "support/job.h"

#include "ggml-cpu.h"

#include <memory>
#include <mutex>

namespace pyspec {

class ThreadPool {
public:
    // The pool of that size, made on first use and freed with its last user. Throws Error(OUT_OF_MEMORY).
    static std::shared_ptr<ThreadPool> get(int n_threads);

    explicit ThreadPool(int n_threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool &)             = delete;
    ThreadPool & operator=(const ThreadPool &) = delete;

    ggml_threadpool * handle() const { return pool_; }
    int n_threads() const { return n_threads_; }

    // Exclusive use of the threads for one graph. Throws Error(CANCELLED) when the job is cancelled while waiting.
    class Turn {
    public:
        Turn(ThreadPool & pool, const Job * job);

    private:
        std::unique_lock<std::timed_mutex> lock_;
    };

private:
    ggml_threadpool * pool_;
    int n_threads_;
    std::timed_mutex turn_;
};

} // namespace pyspec
