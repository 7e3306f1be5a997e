// The one exception type of the core. csrc/api turns it into a status and a message; nothing unwinds through C.
#pragma once

#include "include/pyspec_core.h"

#include <exception>
#include <string>
#include <utility>

namespace pyspec {

class Error : public std::exception {
public:
    Error(pyspec_status status, std::string message) : status_(status), message_(std::move(message)) {}
    pyspec_status status() const noexcept { return status_; }
    const std::string & message() const noexcept { return message_; }
    const char * what() const noexcept override { return message_.c_str(); }

private:
    pyspec_status status_;
    std::string message_;
};

// printf into a std::string, for messages.
#if defined(__GNUC__) || defined(__clang__)
__attribute__((format(printf, 1, 2)))
#endif
std::string format(const char * fmt, ...);

} // namespace pyspec
