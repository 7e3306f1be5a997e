#include "api/handles.h"
#include "generated/build_info.h"
#include "support/log.h"

#include "ggml.h"

#include <algorithm>

namespace pyspec::api {

namespace {

thread_local std::string last_error;
thread_local const char * last_error_text = "";

// ggml's own messages go to the log ring. ggml hands over pieces of lines; whole lines are what people read.
void take_ggml_log(ggml_log_level level, const char * text, void *) {
    if (text == nullptr || *text == '\0' || level == GGML_LOG_LEVEL_DEBUG || level == GGML_LOG_LEVEL_CONT) {
        return;
    }
    const pyspec_log_level mapped = level == GGML_LOG_LEVEL_ERROR  ? PYSPEC_LOG_ERROR
                                    : level == GGML_LOG_LEVEL_WARN ? PYSPEC_LOG_WARN
                                                                   : PYSPEC_LOG_DEBUG;
    log_message(mapped, text);
}

const bool ggml_log_redirected = (ggml_log_set(take_ggml_log, nullptr), true);

} // namespace

void set_last_error(const std::string & message) noexcept {
    try {
        last_error      = message;
        last_error_text = last_error.c_str();
    } catch (...) {
        last_error_text = "out of memory while writing the error message";
    }
}

void set_last_error_text(const char * message) noexcept {
    last_error_text = message;
}

} // namespace pyspec::api

using namespace pyspec;
using namespace pyspec::api;

const char * pyspec_status_name(pyspec_status status) {
    switch (status) {
    case PYSPEC_OK:
        return "PYSPEC_OK";
    case PYSPEC_FILE_FORMAT:
        return "PYSPEC_FILE_FORMAT";
    case PYSPEC_UNSUPPORTED:
        return "PYSPEC_UNSUPPORTED";
    case PYSPEC_OPTION:
        return "PYSPEC_OPTION";
    case PYSPEC_PAIR_MISMATCH:
        return "PYSPEC_PAIR_MISMATCH";
    case PYSPEC_CONTEXT_FULL:
        return "PYSPEC_CONTEXT_FULL";
    case PYSPEC_CANCELLED:
        return "PYSPEC_CANCELLED";
    case PYSPEC_OUT_OF_MEMORY:
        return "PYSPEC_OUT_OF_MEMORY";
    case PYSPEC_DEVICE:
        return "PYSPEC_DEVICE";
    case PYSPEC_BUSY:
        return "PYSPEC_BUSY";
    case PYSPEC_CLOSED:
        return "PYSPEC_CLOSED";
    case PYSPEC_FORK:
        return "PYSPEC_FORK";
    case PYSPEC_INTERNAL:
        return "PYSPEC_INTERNAL";
    }
    return "unknown status";
}

const char * pyspec_last_error(void) {
    return last_error_text;
}

const char * pyspec_version(void) {
    return PYSPEC_VERSION_STRING;
}

const char * pyspec_build_info(void) {
    return PYSPEC_BUILD_INFO_JSON;
}

int64_t pyspec_log_poll(pyspec_log_level * level, char * text, size_t cap) {
    try {
        const std::optional<LogLine> line = log_poll();
        if (!line.has_value()) {
            return -1;
        }
        if (level != nullptr) {
            *level = line->level;
        }
        if (text != nullptr && cap > 0) {
            const size_t n = std::min(line->text.size(), cap - 1);
            std::memcpy(text, line->text.data(), n);
            text[n] = '\0';
        }
        return static_cast<int64_t>(line->text.size());
    } catch (...) {
        return -1;
    }
}

pyspec_status pyspec_job_new(pyspec_job ** job) {
    return guarded([&] {
        need(job, "job");
        *job = new pyspec_job;
    });
}

void pyspec_job_free(pyspec_job * job) {
    delete job;
}

void pyspec_job_cancel(pyspec_job * job) {
    if (job != nullptr) {
        job->job.cancelled.store(true, std::memory_order_relaxed);
    }
}

bool pyspec_job_cancelled(const pyspec_job * job) {
    return job != nullptr && job->job.cancelled.load(std::memory_order_relaxed);
}

double pyspec_job_progress(const pyspec_job * job) {
    return job == nullptr ? 0.0 : job->job.progress.load(std::memory_order_relaxed);
}
