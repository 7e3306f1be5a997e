// What the machine gives this process: memory and processors, limits of its control group included.
#pragma once

#include <cstdint>
#include <string>

namespace pyspec {

// Physical memory that can still be used without swapping: what the kernel reports as available, cut to what the
// control groups of this process (version 1 and 2, with all their parents) leave, counting their reclaimable file pages
// as free. 0 when nothing is known. root is "" except in tests, where it is a directory that holds proc/ and sys/.
uint64_t available_memory_bytes(const std::string & root = "");

// Physical cores that this process may use: the affinity mask, siblings of one core counted once where the topology is
// known, cut to the control group's processor quota (rounded down). At least 1.
int physical_cpu_count(const std::string & root = "");

// For a thread that looks at a variable over and over: lets the other thread of its core go first.
inline void relax_cpu() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Number of this process; differs in a forked child.
int64_t process_id();

// Memory of this process that is resident now. 0 when unknown.
uint64_t resident_bytes();

} // namespace pyspec
