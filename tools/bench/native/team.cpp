#include "team.h"

#include <chrono>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pyspec::bench {

namespace {

constexpr std::chrono::microseconds awake{200};

void breathe() {
#if defined(__x86_64__)
    _mm_pause();
#else
    std::this_thread::yield();
#endif
}

} // namespace

Team::Team(int n_threads) {
    helpers_.reserve(static_cast<size_t>(n_threads));
    try {
        for (int thread = 1; thread < n_threads; ++thread) {
            helpers_.emplace_back([this, thread] { help(thread); });
        }
    } catch (...) {
        stop();
        throw;
    }
}

Team::~Team() {
    stop();
}

void Team::stop() {
    work_ = nullptr;
    piece_.fetch_add(1, std::memory_order_release);
    piece_.notify_all();
    for (std::thread & helper : helpers_) {
        helper.join();
    }
}

void Team::run(const Work & work) {
    work_ = &work;
    n_busy_.store(static_cast<int>(helpers_.size()), std::memory_order_relaxed);
    piece_.fetch_add(1, std::memory_order_release);
    piece_.notify_all();
    work(0, size());
    const auto until = std::chrono::steady_clock::now() + awake;
    while (n_busy_.load(std::memory_order_acquire) != 0) {
        if (std::chrono::steady_clock::now() < until) {
            breathe();
        } else {
            std::this_thread::yield(); // a helper may be waiting for this very processor
        }
    }
}

void Team::rest() {
    std::this_thread::sleep_for(10 * awake);
}

void Team::help(int thread) {
    for (uint32_t seen = 0;;) {
        const auto until = std::chrono::steady_clock::now() + awake;
        while (piece_.load(std::memory_order_acquire) == seen) {
            if (std::chrono::steady_clock::now() < until) {
                breathe();
            } else {
                piece_.wait(seen, std::memory_order_acquire);
            }
        }
        ++seen; // a piece begins only after everyone has finished the one before
        if (work_ == nullptr) {
            return;
        }
        (*work_)(thread, size());
        n_busy_.fetch_sub(1, std::memory_order_release);
    }
}

} // namespace pyspec::bench
