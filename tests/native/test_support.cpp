// Messages, the log ring, and what the machine offers, the latter on made-up proc and sys trees.
#include "check.h"
#include "gguf_bytes.h"

#include "support/log.h"
#include "support/mapped_file.h"
#include "support/system.h"
#include "support/text.h"

#include <thread>

#include <sched.h>

using namespace pyspec;
using gguf_bytes::pattern;
using gguf_bytes::Scratch;

namespace {

void test_text() {
    CHECK_EQ(format("%s %d %.2f", "x", -3, 0.5), "x -3 0.50");
    CHECK_EQ(format("%s", std::string(5000, 'y').c_str()), std::string(5000, 'y'));
    CHECK_EQ(format("%s", ""), "");
    CHECK_EQ(quote_bytes("plain"), "'plain'");
    CHECK_EQ(quote_bytes(std::string("a\0\n\xff", 4)), "'a\\x00\\x0a\\xff'");
    CHECK_EQ(quote_bytes(std::string(100, 'z'), 3), "'zzz'...");
    CHECK_EQ(byte_size(0), "0 bytes");
    CHECK_EQ(byte_size(10239), "10239 bytes");
    CHECK_EQ(byte_size(5u << 20), "5.0 MiB (5242880 bytes)");
    CHECK_EQ(byte_size(UINT64_MAX), "16.0 EiB (18446744073709551615 bytes)");
}

void drain() {
    while (log_poll()) {
    }
}

void test_log() {
    drain();
    CHECK(!log_poll().has_value());
    log_message(PYSPEC_LOG_INFO, "first\r\n\n");
    log_message(PYSPEC_LOG_ERROR, "");
    auto line = log_poll();
    CHECK(line && line->level == PYSPEC_LOG_INFO && line->text == "first");
    line = log_poll();
    CHECK(line && line->level == PYSPEC_LOG_ERROR && line->text.empty());
    CHECK(!log_poll());

    for (size_t i = 0; i < LOG_RING_LINES; ++i) log_message(PYSPEC_LOG_DEBUG, std::to_string(i));
    line = log_poll();
    CHECK(line && line->text == "0"); // exactly full: nothing lost
    for (int i = 0; i < 8; ++i) log_message(PYSPEC_LOG_DEBUG, "late");
    line = log_poll();
    CHECK(line && line->level == PYSPEC_LOG_WARN && line->text == "7 older log lines were dropped");
    line = log_poll();
    CHECK(line && line->text == "8");
    size_t n = 1;
    while (log_poll()) ++n;
    CHECK_EQ(n, LOG_RING_LINES);

    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([t] {
            for (int i = 0; i < 500; ++i) log_message(PYSPEC_LOG_INFO, std::to_string(t));
        });
    }
    for (std::thread & t : threads) t.join();
    line = log_poll();
    CHECK(line && line->text == format("%zu older log lines were dropped", 2000 - LOG_RING_LINES));
    drain();
}

void test_memory(const Scratch & dir) {
    const std::string root = dir.path("mem");
    const auto put         = [&](const std::string & path, const std::string & text) { dir.write("mem" + path, text); };
    CHECK_EQ(available_memory_bytes(root), 0u);
    put("/proc/meminfo", "MemTotal:       100 kB\nMemFree:         10 kB\nMemAvailable:   2000 kB\n");
    CHECK_EQ(available_memory_bytes(root), 2000u * 1024);
    // version 2: the parent's limit counts too, inactive file pages can be taken back
    put("/proc/self/cgroup", "0::/slice/job\n");
    put("/sys/fs/cgroup/slice/job/memory.max", "max\n");
    put("/sys/fs/cgroup/slice/job/memory.current", "900000\n");
    CHECK_EQ(available_memory_bytes(root), 2000u * 1024);
    put("/sys/fs/cgroup/slice/memory.max", "1000000\n");
    put("/sys/fs/cgroup/slice/memory.current", "900000\n");
    CHECK_EQ(available_memory_bytes(root), 100000u);
    put("/sys/fs/cgroup/slice/memory.stat", "anon 1\ninactive_file 300000\nactive_file 5\n");
    CHECK_EQ(available_memory_bytes(root), 400000u);
    put("/sys/fs/cgroup/slice/memory.current", "2000000\n");
    put("/sys/fs/cgroup/slice/memory.stat", "inactive_file 0\n");
    CHECK_EQ(available_memory_bytes(root), 0u);
    // version 1
    put("/proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/a/b\n0::/\n");
    put("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"); // version 1's "no limit"
    put("/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "5000\n");
    CHECK_EQ(available_memory_bytes(root), 2000u * 1024);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "70000\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "20000\n");
    put("/sys/fs/cgroup/memory/memory.stat", "total_inactive_file 1000\n");
    CHECK_EQ(available_memory_bytes(root), 51000u);
    CHECK(available_memory_bytes() > (1u << 20)); // the real machine

    const uint64_t before = resident_bytes();
    CHECK(before > (1u << 20) && before < (uint64_t{1} << 40));
    std::vector<char> touched(64u << 20, 1);
    CHECK(resident_bytes() > before + (60u << 20) + static_cast<uint64_t>(touched[5]) - 1);
}

void test_processors(const Scratch & dir) {
    cpu_set_t set;
    CHECK_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    const int allowed      = CPU_COUNT(&set);
    const std::string root = dir.path("cpu");
    const auto put         = [&](const std::string & path, const std::string & text) { dir.write("cpu" + path, text); };
    CHECK_EQ(physical_cpu_count(root), allowed); // topology unknown
    const auto siblings = [&](int cpu, const std::string & text) {
        put("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list", text);
    };
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &set)) siblings(cpu, std::to_string(cpu) + "\n");
    }
    CHECK_EQ(physical_cpu_count(root), allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &set)) siblings(cpu, "0-1\n"); // threads of one core
    }
    CHECK_EQ(physical_cpu_count(root), 1);
    CHECK(physical_cpu_count() >= 1 && physical_cpu_count() <= allowed);

    const std::string quota_root = dir.path("quota");
    const auto put_quota = [&](const std::string & path, const std::string & text) { dir.write("quota" + path, text); };
    put_quota("/proc/self/cgroup", "0::/job\n");
    put_quota("/sys/fs/cgroup/job/cpu.max", "max 100000\n");
    CHECK_EQ(physical_cpu_count(quota_root), allowed);
    put_quota("/sys/fs/cgroup/job/cpu.max", "150000 100000\n");
    CHECK_EQ(physical_cpu_count(quota_root), 1);
    put_quota("/sys/fs/cgroup/job/cpu.max", "20000 100000\n");
    CHECK_EQ(physical_cpu_count(quota_root), 1);
    put_quota("/sys/fs/cgroup/job/cpu.max", "400000 100000\n");
    CHECK_EQ(physical_cpu_count(quota_root), std::min(4, allowed));
    put_quota("/proc/self/cgroup", "3:cpu,cpuacct:/job\n");
    put_quota("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    put_quota("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    CHECK_EQ(physical_cpu_count(quota_root), allowed);
    put_quota("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "100000\n");
    CHECK_EQ(physical_cpu_count(quota_root), 1);
}

void test_files(const Scratch & dir) {
    const std::string bytes = pattern(9u << 20); // more than two chunks, not a multiple of the page size
    const std::string path  = dir.write("file", bytes.substr(0, bytes.size() - 123));
    InputFile file          = InputFile::open(path);
    CHECK_EQ(file.size(), bytes.size() - 123);
    char tail[200];
    CHECK_EQ(file.read_some(file.size() - 50, tail, sizeof tail), 50u);
    CHECK_EQ(file.read_some(file.size() + 1, tail, sizeof tail), 0u);

    const FileMapping mapping = FileMapping::map(file);
    CHECK(mapping.valid() && mapping.size() == file.size());
    Job job;
    LoadProgress progress(&job, file.size());
    mapping.populate(file, 777, file.size(), progress);
    CHECK(job.progress > 0.99 && job.progress <= 1.0);
    CHECK(std::memcmp(mapping.base(), bytes.data(), mapping.size()) == 0);

    const AlignedBuffer buffer(file.size());
    CHECK_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    LoadProgress silent(nullptr, 0);
    file.read_exactly(0, buffer.data(), buffer.size(), silent);
    CHECK(std::memcmp(buffer.data(), bytes.data(), buffer.size()) == 0);

    job.cancelled = true;
    CHECK_ERROR(mapping.populate(file, 0, file.size(), progress), PYSPEC_CANCELLED, "cancelled");
    CHECK_ERROR(file.read_exactly(0, buffer.data(), buffer.size(), progress), PYSPEC_CANCELLED, "cancelled");

    // Shrunk after mapping: a plain load of the last page would be a bus error.
    std::filesystem::resize_file(path, 5u << 20);
    CHECK_EQ(file.current_size(), 5u << 20);
    CHECK_ERROR(mapping.populate(file, 0, file.size(), silent), PYSPEC_FILE_FORMAT, "has become shorter");
    CHECK_ERROR(file.read_exactly(0, buffer.data(), buffer.size(), silent), PYSPEC_FILE_FORMAT, "has become shorter");
    mapping.populate(file, 0, 5u << 20, silent);

    InputFile moved = std::move(file);
    CHECK_EQ(moved.read_some(0, tail, 10), 10u);
    moved = InputFile::open(path);
    CHECK_EQ(moved.size(), 5u << 20);
    CHECK(!FileMapping::map(InputFile::open(dir.write("empty", ""))).valid());
}

} // namespace

int main(int argc, char ** argv) {
    const Scratch dir(argc, argv);
    test_text();
    test_log();
    test_memory(dir);
    test_processors(dir);
    test_files(dir);
    return check_report();
}
