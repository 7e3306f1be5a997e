// The thread pool: every chunk once, on every thread, whatever the others do; cancel; sleep.
#include "check.h"

#include "support/thread_pool.h"

#include <atomic>
#include <cfenv>
#include <chrono>
#include <ctime>
#include <thread>
#include <vector>

using namespace pyspec;

namespace {

double cpu_seconds() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void each_chunk_once() {
    for (const int n_threads : {1, 2, 3, 8}) {
        ThreadPool pool(n_threads);
        ThreadPool::Turn turn(pool, nullptr);
        for (const int64_t n : {0, 1, 2, 3, 7, 100, 4096}) {
            for (int repeat = 0; repeat < (check::sanitized ? 20 : 300); ++repeat) {
                std::vector<std::atomic<int>> done(static_cast<size_t>(n));
                std::atomic<bool> right{true};
                int64_t sum = 0;
                pool.run(n, [&](int64_t chunk, int thread) {
                    done[static_cast<size_t>(chunk)].fetch_add(1, std::memory_order_relaxed);
                    if (thread < 0 || thread >= n_threads) {
                        right = false;
                    }
                });
                for (const std::atomic<int> & times : done) { // visible without further ado: run has returned
                    sum += times.load(std::memory_order_relaxed) == 1 ? 1 : -n;
                }
                CHECK(sum == n && right);
            }
        }
    }
}

// More chunks than a share can count are taken several at a time.
void many_chunks() {
    ThreadPool pool(3);
    ThreadPool::Turn turn(pool, nullptr);
    const int64_t n = 2 * ThreadPool::max_chunks + 5;
    std::vector<std::atomic<uint8_t>> done(static_cast<size_t>(n));
    pool.run(n, [&](int64_t chunk, int) { done[static_cast<size_t>(chunk)].fetch_add(1, std::memory_order_relaxed); });
    int64_t sum = 0;
    for (const std::atomic<uint8_t> & times : done) {
        sum += times == 1 ? 1 : -n;
    }
    CHECK(sum == n);
}

// Rounds follow each other at once, of different sizes, so that late threads meet the next one.
void rounds_do_not_mix() {
    ThreadPool pool(4);
    ThreadPool::Turn turn(pool, nullptr);
    for (int round = 0; round < (check::sanitized ? 2000 : 100000); ++round) {
        const int64_t n = 2 + round % 5;
        std::atomic<int64_t> sum{0};
        pool.run(n, [&](int64_t chunk, int) { sum.fetch_add(chunk + 1, std::memory_order_relaxed); });
        if (sum != n * (n + 1) / 2) {
            CHECK(false);
            return;
        }
    }
    CHECK(true);
}

void cancel_leaves_the_rest_out() {
    for (const int n_threads : {1, 3}) {
        ThreadPool pool(n_threads);
        Job job;
        std::atomic<int> begun{0};
        {
            ThreadPool::Turn turn(pool, &job);
            pool.run(1000, [&](int64_t, int) {
                if (begun.fetch_add(1) == 5) {
                    job.cancelled = true;
                }
            });
            CHECK(begun < 1000);
            CHECK(begun >= 6);
        }
        ThreadPool::Turn again(pool, nullptr); // the next user is not affected
        begun = 0;
        pool.run(10, [&](int64_t, int) { ++begun; });
        CHECK(begun == 10);
    }
}

void waits_for_its_turn() {
    ThreadPool pool(2);
    Job job;
    ThreadPool::Turn mine(pool, nullptr);
    std::thread other([&] { CHECK_ERROR(ThreadPool::Turn(pool, &job), PYSPEC_CANCELLED, "waiting for the compute"); });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    job.cancelled = true;
    other.join();
}

// No clock decides: a pool that watched for work all the time would use a second of each thread here.
void sleeps_between_graphs() {
    ThreadPool pool(4);
    ThreadPool::Turn turn(pool, nullptr);
    pool.run(100, [](int64_t, int) {});
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const double before = cpu_seconds();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    CHECK(cpu_seconds() - before < 0.2);
    std::atomic<int> done{0};
    pool.run(100, [&](int64_t, int) { ++done; });
    CHECK(done == 100);
}

void shared_by_size() {
    const std::shared_ptr<ThreadPool> a = ThreadPool::get(2);
    CHECK(a == ThreadPool::get(2));
    CHECK(a != ThreadPool::get(3));
}

// The thread that makes the pool may have other rounding; its workers do not inherit it.
void rounds_to_nearest() {
    std::fesetround(FE_UPWARD);
    ThreadPool pool(3);
    std::fesetround(FE_TONEAREST);
    ThreadPool::Turn turn(pool, nullptr);
    std::atomic<bool> right{true};
    for (int i = 0; i < 50; ++i) {
        pool.run(30, [&](int64_t, int) {
            if (std::fegetround() != FE_TONEAREST) {
                right = false;
            }
        });
    }
    CHECK(right);
}

} // namespace

int main() {
    each_chunk_once();
    many_chunks();
    rounds_do_not_mix();
    cancel_leaves_the_rest_out();
    waits_for_its_turn();
    sleeps_between_graphs();
    shared_by_size();
    rounds_to_nearest();
    return check_report();
}
