// The whole test framework of the native tests: checks that count, report and go on. A test program is a plain main
// that ends with `return check_report();`.
#pragma once

#include "support/error.h"

#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>

namespace check {

// Sanitizers make everything ten times slower: programs with many cases then take some of them. Instruction sets share
// work between threads in the same way, so the thread sanitizer needs to see the best one only.
#if defined(__has_feature) // Clang; GCC has macros of its own
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
constexpr bool thread_sanitized = true;
#else
constexpr bool thread_sanitized = false;
#endif
#if defined(__SANITIZE_ADDRESS__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = thread_sanitized;
#endif

inline int n_checks   = 0;
inline int n_failures = 0;

inline void failed(const char * file, int line, const std::string & what) {
    if (++n_failures <= 50) std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
}

template <typename A, typename B>
void equal(const A & a, const B & b, const char * text_a, const char * text_b, const char * file, int line) {
    ++n_checks;
    if (a == b) return;
    std::ostringstream message;
    message << text_a << " is " << a << ", " << text_b << " is " << b;
    failed(file, line, message.str());
}

inline int report() {
    std::printf("%d checks, %d failures\n", n_checks, n_failures);
    return n_failures == 0 && n_checks > 0 ? 0 : 1;
}

} // namespace check

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        ++check::n_checks;                                                                                             \
        if (!(condition)) check::failed(__FILE__, __LINE__, "not true: " #condition);                                  \
    } while (0)

#define CHECK_EQ(a, b) check::equal((a), (b), #a, #b, __FILE__, __LINE__)

// The expression must throw pyspec::Error with this status and with `part` somewhere in its message.
#define CHECK_ERROR(expression, expected_status, part)                                                                 \
    do {                                                                                                               \
        ++check::n_checks;                                                                                             \
        try {                                                                                                          \
            (void)(expression);                                                                                        \
            check::failed(__FILE__, __LINE__, "no error: " #expression);                                               \
        } catch (const pyspec::Error & error) {                                                                        \
            if (error.status() != (expected_status) || error.message().find(part) == std::string::npos) {              \
                check::failed(__FILE__, __LINE__, "wrong error from " #expression ": " + error.message());             \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

inline int check_report() {
    return check::report();
}
