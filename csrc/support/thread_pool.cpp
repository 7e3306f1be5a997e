#include "support/thread_pool.h"

#include "support/system.h"

#include <cfenv>
#include <chrono>
#include <exception>
#include <map>

#include <unistd.h>

namespace pyspec {

namespace {

using Clock = std::chrono::steady_clock;

// How long threads watch for the next round: longer than the single-threaded nodes between two rounds of a graph, much
// shorter than the millisecond after which a pool must be quiet.
constexpr auto watch_time = std::chrono::microseconds(100);
// Looks between two readings of the clock, and before a thread that waits for others lets somebody else run.
constexpr int looks = 32;

// A share in one word: 22 bits of the round, end and next chunk in 21 bits each.
constexpr int chunk_bits      = 21;
constexpr uint64_t chunk_mask = (uint64_t{1} << chunk_bits) - 1;
uint64_t pack_share(uint32_t round, int64_t first, int64_t end) {
    return uint64_t{round} << (2 * chunk_bits) | static_cast<uint64_t>(end) << chunk_bits |
           static_cast<uint64_t>(first);
}
int64_t next_of(uint64_t share) {
    return static_cast<int64_t>(share & chunk_mask);
}
int64_t end_of(uint64_t share) {
    return static_cast<int64_t>(share >> chunk_bits & chunk_mask);
}
bool is_of_round(uint64_t share, uint32_t round) {
    return share >> (2 * chunk_bits) == (uint64_t{round} << (2 * chunk_bits)) >> (2 * chunk_bits);
}
static_assert(ThreadPool::max_chunks < int64_t{1} << chunk_bits);

// The registry is one of the three process-wide states of the library. Entries of a parent process are ignored after
// fork(): its threads do not exist in the child.
struct Registry {
    std::mutex mutex;
    std::map<std::pair<pid_t, int>, std::weak_ptr<ThreadPool>> pools;
};

Registry & registry() {
    static Registry * instance = new Registry; // never destroyed: contexts may outlive static destruction
    return *instance;
}

} // namespace

std::shared_ptr<ThreadPool> ThreadPool::get(int n_threads) {
    Registry & reg = registry();
    std::lock_guard<std::mutex> lock(reg.mutex);
    std::weak_ptr<ThreadPool> & entry = reg.pools[{getpid(), n_threads}];
    std::shared_ptr<ThreadPool> pool  = entry.lock();
    if (pool == nullptr) {
        pool  = std::make_shared<ThreadPool>(n_threads);
        entry = pool;
    }
    return pool;
}

ThreadPool::ThreadPool(int n_threads) : n_threads_(n_threads), shares_(new Share[static_cast<size_t>(n_threads)]) {
    workers_.reserve(static_cast<size_t>(n_threads));
    try {
        for (int i = 1; i < n_threads; ++i) {
            workers_.emplace_back([this, i] { live(i); });
        }
    } catch (const std::exception &) {
        stop();
        throw Error(PYSPEC_OUT_OF_MEMORY, format("cannot start %d compute threads", n_threads));
    }
}

ThreadPool::~ThreadPool() {
    stop();
}

void ThreadPool::stop() {
    quit_.store(true, std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_seq_cst);
    round_.notify_all();
    for (std::thread & worker : workers_) {
        worker.join();
    }
}

void ThreadPool::run_chunks(int64_t n_chunks, Function function, const void * work) {
    if (workers_.empty() || n_chunks <= 1) {
        for (int64_t chunk = 0; chunk < n_chunks && !cancelled(); ++chunk) {
            function(work, chunk, 0);
        }
        return;
    }
    const uint32_t round = round_.load(std::memory_order_relaxed) + 1; // only the holder of the turn counts
    function_.store(function, std::memory_order_relaxed);
    work_.store(work, std::memory_order_relaxed);
    unfinished_.store(n_chunks, std::memory_order_relaxed);
    for (int i = 0; i < n_threads_; ++i) {
        const uint64_t left = pack_share(round, n_chunks * i / n_threads_, n_chunks * (i + 1) / n_threads_);
        shares_[static_cast<size_t>(i)].left.store(left, std::memory_order_release);
    }
    // In one order with the two of live(): either this sees the sleeper or the sleeper sees the round.
    round_.store(round, std::memory_order_seq_cst);
    if (n_sleeping_.load(std::memory_order_seq_cst) > 0) {
        round_.notify_all();
    }
    take_chunks(round, 0);
    for (auto give_up = Clock::now() + watch_time; unfinished_.load(std::memory_order_acquire) != 0;) {
        for (int i = 0; i < looks; ++i) {
            relax_cpu();
        }
        if (Clock::now() > give_up) { // a thread was stopped in the middle of a chunk: it needs a processor
            std::this_thread::yield();
        }
    }
}

void ThreadPool::take_chunks(uint32_t round, int thread) {
    for (int i = 0; i < n_threads_; ++i) {
        take_share(round, (thread + i) % n_threads_, thread);
    }
}

void ThreadPool::take_share(uint32_t round, int share, int thread) {
    std::atomic<uint64_t> & left = shares_[static_cast<size_t>(share)].left;
    uint64_t seen                = left.load(std::memory_order_acquire);
    while (is_of_round(seen, round) && next_of(seen) < end_of(seen)) {
        if (!left.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
            continue;
        }
        if (!cancelled()) {
            function_.load(std::memory_order_relaxed)(work_.load(std::memory_order_relaxed), next_of(seen), thread);
        }
        unfinished_.fetch_sub(1, std::memory_order_acq_rel);
        seen = left.load(std::memory_order_acquire);
    }
}

void ThreadPool::live(int thread) {
    std::fesetenv(FE_DFL_ENV); // a new thread inherits the caller's rounding; results must not depend on it
    uint32_t seen = 0;
    while (!quit_.load(std::memory_order_relaxed)) {
        auto give_up = Clock::now() + watch_time;
        while (round_.load(std::memory_order_acquire) == seen) {
            for (int i = 0; i < looks && round_.load(std::memory_order_acquire) == seen; ++i) {
                relax_cpu();
            }
            if (Clock::now() > give_up) {
                n_sleeping_.fetch_add(1, std::memory_order_seq_cst);
                round_.wait(seen, std::memory_order_seq_cst);
                n_sleeping_.fetch_sub(1, std::memory_order_relaxed);
            }
        }
        seen = round_.load(std::memory_order_acquire);
        take_chunks(seen, thread);
    }
}

ThreadPool::Turn::Turn(ThreadPool & pool, const Job * job) : pool_(pool), lock_(pool.turn_, std::defer_lock) {
    while (!lock_.try_lock_for(std::chrono::milliseconds(20))) {
        check_cancelled(job, "waiting for the compute threads");
    }
    pool_.job_.store(job, std::memory_order_relaxed);
}

ThreadPool::Turn::~Turn() {
    pool_.job_.store(nullptr, std::memory_order_relaxed);
}

} // namespace pyspec
