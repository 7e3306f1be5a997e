// Threads that work together on short pieces of work: they wait for the next piece awake, for a while.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace pyspec::bench {

class Team {
public:
    // The caller is one of n_threads. Throws std::system_error when a thread cannot be started.
    explicit Team(int n_threads);
    ~Team();
    Team(const Team &)             = delete;
    Team & operator=(const Team &) = delete;

    int size() const { return static_cast<int>(helpers_.size()) + 1; }

    // work(thread, size()) once on every thread, 0 being the caller; returns when all are done. work must not throw.
    using Work = std::function<void(int thread, int n_threads)>;
    void run(const Work & work);

    // Waits until the helpers sleep, so that they take no time from what is measured next.
    static void rest();

private:
    void help(int thread);
    void stop();

    std::vector<std::thread> helpers_;
    const Work * work_ = nullptr; // of the current piece; null: the end
    std::atomic<uint32_t> piece_{0};
    std::atomic<int> n_busy_{0};
};

} // namespace pyspec::bench
