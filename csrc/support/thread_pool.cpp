#include "support/thread_pool.h"

#include <chrono>
#include <map>

#include <unistd.h>

namespace pyspec {

namespace {

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

ThreadPool::ThreadPool(int n_threads) : n_threads_(n_threads) {
    ggml_threadpool_params params = ggml_threadpool_params_default(n_threads);
    params.poll                   = 0;
    pool_                         = ggml_threadpool_new(&params);
    if (pool_ == nullptr) {
        throw Error(PYSPEC_OUT_OF_MEMORY, format("cannot start %d compute threads", n_threads));
    }
}

ThreadPool::~ThreadPool() {
    ggml_threadpool_free(pool_);
}

ThreadPool::Turn::Turn(ThreadPool & pool, const Job * job) : lock_(pool.turn_, std::defer_lock) {
    while (!lock_.try_lock_for(std::chrono::milliseconds(20))) {
        check_cancelled(job, "waiting for the compute threads");
    }
}

} // namespace pyspec
