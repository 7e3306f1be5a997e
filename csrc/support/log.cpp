#include "support/log.h"

#include "support/error.h"

#include <deque>
#include <mutex>

namespace pyspec {

namespace {

struct Ring {
    std::mutex mutex;
    std::deque<LogLine> lines;
    unsigned long long dropped = 0;
};

Ring & ring() {
    // Never destroyed: threads that outlive static destruction may still log.
    static Ring * const instance = new Ring;
    return *instance;
}

} // namespace

void log_message(pyspec_log_level level, std::string_view text) noexcept {
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
    try {
        Ring & r = ring();
        const std::lock_guard<std::mutex> lock(r.mutex);
        try {
            r.lines.push_back({level, std::string(text)});
        } catch (...) {
            r.dropped++;
        }
        if (r.lines.size() > LOG_RING_LINES) {
            r.lines.pop_front();
            r.dropped++;
        }
    } catch (...) {
        // Logging must not turn a working call into a failing one.
    }
}

std::optional<LogLine> log_poll() {
    Ring & r = ring();
    const std::lock_guard<std::mutex> lock(r.mutex);
    if (r.dropped > 0) {
        LogLine line{PYSPEC_LOG_WARN, format("%llu older log lines were dropped", r.dropped)};
        r.dropped = 0;
        return line;
    }
    if (r.lines.empty()) return std::nullopt;
    LogLine line = std::move(r.lines.front());
    r.lines.pop_front();
    return line;
}

} // namespace pyspec
