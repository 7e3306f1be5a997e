// The objects behind the opaque handles of pyspec.h, and the frame every C function runs in.
#pragma once

#include "include/pyspec.h"
#include "runtime/context.h"
#include "sampling/sampler.h"
#include "support/system.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <string>

struct pyspec_job {
    pyspec::Job job;
};

struct pyspec_model {
    std::shared_ptr<const pyspec::Model> model;
    int64_t pid = pyspec::process_id();
};

struct pyspec_context {
    std::unique_ptr<pyspec::Context> context;
    int64_t pid = pyspec::process_id();
    mutable std::atomic_flag in_use;
};

struct pyspec_sampler {
    pyspec::Sampler sampler;
};

namespace pyspec::api {

void set_last_error(const std::string & message) noexcept;
void set_last_error_text(const char * message) noexcept; // allocates nothing

// Runs f and turns every exception into a status and this thread's message.
template <typename F> pyspec_status guarded(F && f) noexcept {
    try {
        f();
        return PYSPEC_OK;
    } catch (const Error & error) {
        set_last_error(error.message());
        return error.status();
    } catch (const std::bad_alloc &) {
        set_last_error_text("out of memory");
        return PYSPEC_OUT_OF_MEMORY;
    } catch (const std::exception & error) {
        set_last_error(std::string("internal error: ") + error.what());
        return PYSPEC_INTERNAL;
    } catch (...) {
        set_last_error_text("internal error of unknown type");
        return PYSPEC_INTERNAL;
    }
}

inline void need(const void * pointer, const char * name) {
    if (pointer == nullptr) {
        throw Error(PYSPEC_OPTION, std::string(name) + " is null");
    }
}

template <typename Handle> void check_process(const Handle * handle, const char * name) {
    need(handle, name);
    if (handle->pid != process_id()) {
        throw Error(PYSPEC_FORK,
                    std::string("this ") + name +
                        " was made before fork(); its threads do not exist in the child process. Open the model "
                        "again in the child, or start workers with the 'spawn' method");
    }
}

// Exclusive use of a context for one call.
class InUse {
public:
    explicit InUse(const pyspec_context * ctx) : flag_((check_process(ctx, "context"), &ctx->in_use)) {
        if (flag_->test_and_set(std::memory_order_acquire)) {
            throw Error(PYSPEC_BUSY, "another thread is using this context");
        }
    }
    ~InUse() { flag_->clear(std::memory_order_release); }
    InUse(const InUse &)             = delete;
    InUse & operator=(const InUse &) = delete;

private:
    std::atomic_flag * flag_;
};

// A struct the caller filled: fields beyond the caller's struct_size keep their defaults.
template <typename T> T read_struct(const T * from, T defaults, const char * name) {
    need(from, name);
    if (from->struct_size < sizeof(size_t) || from->struct_size > 4096) {
        throw Error(PYSPEC_OPTION, format("%s.struct_size is %zu: fill the struct with its _default function first",
                                          name, from->struct_size));
    }
    std::memcpy(&defaults, from, std::min(from->struct_size, sizeof(T)));
    defaults.struct_size = sizeof(T);
    return defaults;
}

// A struct for the caller, cut to the size the caller knows.
template <typename T> void write_struct(T * to, T value, size_t struct_size, const char * name) {
    need(to, name);
    value.struct_size = std::min(struct_size, sizeof(T));
    std::memcpy(to, &value, value.struct_size);
}

} // namespace pyspec::api
