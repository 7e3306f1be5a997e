// The process-wide log: a ring of lines that the host program polls. Nothing is ever written to stdout or stderr.
#pragma once

#include "include/pyspec_core.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace pyspec {

constexpr size_t LOG_RING_LINES = 1024;

struct LogLine {
    pyspec_log_level level;
    std::string text;
};

// Adds one line (line ends at its tail are dropped). When the ring is full the oldest line goes and is counted. Any
// thread; never throws: a line that finds no memory counts as dropped.
void log_message(pyspec_log_level level, std::string_view text) noexcept;

// Takes the oldest line, or nothing when the ring is empty. After lines were dropped, a warning that says how many
// comes first. Any thread.
std::optional<LogLine> log_poll();

} // namespace pyspec
