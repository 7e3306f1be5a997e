// Compute threads shared by every context of the process that asks for the same number of threads.
//
// One pool per size, reference counted. Every thread has a share of the chunks of a piece of work and takes them one
// after the other (so what it reads from memory is contiguous), then those of others: a thread that is late, slow or
// not scheduled at all only takes fewer. Threads watch for work for a moment after the last (the nodes of a graph
// follow each other within microseconds), then sleep. One graph runs on a pool at a time; a second context waits for
// its turn and can be cancelled while it waits.
#pragma once

#include "support/job.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace pyspec {

class ThreadPool {
public:
    // The pool of that size, made on first use and freed with its last user. Throws Error(OUT_OF_MEMORY).
    static std::shared_ptr<ThreadPool> get(int n_threads);

    explicit ThreadPool(int n_threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool &)             = delete;
    ThreadPool & operator=(const ThreadPool &) = delete;

    int n_threads() const { return n_threads_; }

    // Calls work(chunk, thread) once for each chunk 0 .. n_chunks - 1, on the calling thread
    // (number 0) and the pool's others, in any order; returns when all are done. work must not throw. For the holder of
    // a Turn only. Once its job is cancelled, chunks that have not begun are left out.
    template <typename Work> void run(int64_t n_chunks, const Work & work) {
        if (n_chunks <= max_chunks) {
            return share_out(n_chunks, work);
        }
        const int64_t at_once = (n_chunks + max_chunks - 1) / max_chunks;
        share_out((n_chunks + at_once - 1) / at_once, [&](int64_t some, int thread) {
            for (int64_t i = some * at_once; i < std::min(n_chunks, (some + 1) * at_once); ++i) {
                work(i, thread);
            }
        });
    }

    // Has the job of the turn been cancelled? Long chunks look now and then and leave the rest out.
    bool cancelled() const {
        const Job * job = job_.load(std::memory_order_relaxed);
        return job != nullptr && job->cancelled.load(std::memory_order_relaxed);
    }

    static constexpr int64_t max_chunks = int64_t{1} << 20; // taken one by one; more are taken several at a time

    // Exclusive use of the threads for one graph. Throws Error(CANCELLED) when the job is cancelled while waiting.
    class Turn {
    public:
        Turn(ThreadPool & pool, const Job * job);
        ~Turn();

    private:
        ThreadPool & pool_;
        std::unique_lock<std::timed_mutex> lock_;
    };

private:
    using Function = void (*)(const void * work, int64_t chunk, int thread);

    template <typename Work> void share_out(int64_t n_chunks, const Work & work) {
        run_chunks(
            n_chunks, [](const void * w, int64_t chunk, int thread) { (*static_cast<const Work *>(w))(chunk, thread); },
            &work);
    }
    void run_chunks(int64_t n_chunks, Function function, const void * work);
    void take_chunks(uint32_t round, int thread);
    void take_share(uint32_t round, int share, int thread);
    void live(int thread);
    void stop();

    int n_threads_;
    std::timed_mutex turn_;
    std::vector<std::thread> workers_;

    // What is left of a thread's share in the current round (a round is one call of run): number of the round, end and
    // next chunk in one word, so that a thread that comes late cannot take anything by the numbers of another round.
    struct alignas(64) Share {
        std::atomic<uint64_t> left{0};
    };
    std::unique_ptr<Share[]> shares_;

    // Belong to the round and change only when all its chunks are done: whoever has taken a chunk may read them.
    std::atomic<Function> function_{nullptr};
    std::atomic<const void *> work_{nullptr};
    std::atomic<const Job *> job_{nullptr};

    alignas(64) std::atomic<int64_t> unfinished_{0}; // chunks of the round
    alignas(64) std::atomic<uint32_t> round_{0};     // what threads watch, and sleep on
    std::atomic<int> n_sleeping_{0};
    std::atomic<bool> quit_{false};
};

} // namespace pyspec
