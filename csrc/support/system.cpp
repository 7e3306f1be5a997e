#include "support/system.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include <sched.h>
#include <unistd.h>

namespace pyspec {

namespace {

constexpr uint64_t UNLIMITED = std::numeric_limits<uint64_t>::max();

// Pseudo files report no size, so they are read until they end; 64 KiB is far above any of those used here.
std::optional<std::string> read_text(const std::string & path) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path.c_str(), "re"), &std::fclose);
    if (!file) return std::nullopt;
    std::string text(1u << 16, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file.get()));
    return text;
}

std::optional<uint64_t> parse_number(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    uint64_t value = 0;
    size_t n       = 0;
    for (; n < text.size() && text[n] >= '0' && text[n] <= '9'; n++) {
        const auto digit = static_cast<uint64_t>(text[n] - '0');
        if (value > (UNLIMITED - digit) / 10) return UNLIMITED;
        value = value * 10 + digit;
    }
    if (n == 0) return std::nullopt;
    return value;
}

std::optional<uint64_t> read_number(const std::string & path) {
    const auto text = read_text(path);
    return text ? parse_number(*text) : std::nullopt;
}

// Number after `name` at the start of a line ("MemAvailable:   123 kB", "inactive_file 4096").
std::optional<uint64_t> find_field(std::string_view text, std::string_view name) {
    for (size_t at = 0; at < text.size();) {
        const size_t end            = std::min(text.find('\n', at), text.size());
        const std::string_view line = text.substr(at, end - at);
        if (line.starts_with(name)) return parse_number(line.substr(name.size()));
        at = end + 1;
    }
    return std::nullopt;
}

// Path of this process inside the control-group hierarchy that has the controller ("" = version 2), from lines
// "4:memory:/a/b" and "0::/a/b" of proc/self/cgroup.
std::optional<std::string> group_path(const std::string & root, std::string_view controller) {
    const auto text = read_text(root + "/proc/self/cgroup");
    if (!text) return std::nullopt;
    const std::string_view all = *text;
    for (size_t at = 0; at < all.size();) {
        const size_t end            = std::min(all.find('\n', at), all.size());
        const std::string_view line = all.substr(at, end - at);
        at                          = end + 1;
        const size_t first          = line.find(':');
        const size_t second         = first == line.npos ? line.npos : line.find(':', first + 1);
        if (second == line.npos) continue;
        const std::string_view names = line.substr(first + 1, second - first - 1);
        bool match                   = controller.empty() ? names.empty() : false;
        for (size_t p = 0; !controller.empty() && p <= names.size();) {
            const size_t comma = std::min(names.find(',', p), names.size());
            match              = match || names.substr(p, comma - p) == controller;
            p                  = comma + 1;
        }
        if (match) return std::string(line.substr(second + 1));
    }
    return std::nullopt;
}

// The group's own directory and all parents below `mount`. Inside a container the path in proc may start above what is
// mounted; directories that do not exist are simply not found by the readers.
std::vector<std::string> group_directories(const std::string & mount, std::string path) {
    std::vector<std::string> result;
    while (!path.empty() && path != "/") {
        result.push_back(mount + path);
        const size_t slash = path.rfind('/');
        path.resize(slash == path.npos ? 0 : slash);
    }
    result.push_back(mount);
    return result;
}

uint64_t left_in_group(uint64_t limit, uint64_t used, uint64_t reclaimable) {
    used -= std::min(used, reclaimable);
    return limit - std::min(limit, used);
}

uint64_t group_memory_left(const std::string & root) {
    uint64_t left = UNLIMITED;
    if (const auto path = group_path(root, "")) {
        for (const std::string & mount : {root + "/sys/fs/cgroup", root + "/sys/fs/cgroup/unified"}) {
            for (const std::string & dir : group_directories(mount, *path)) {
                const auto limit = read_number(dir + "/memory.max"); // "max" is not a number: no limit
                const auto used  = read_number(dir + "/memory.current");
                if (!limit || !used) continue;
                const auto stat = read_text(dir + "/memory.stat");
                left            = std::min(
                    left, left_in_group(*limit, *used, stat ? find_field(*stat, "inactive_file ").value_or(0) : 0));
            }
        }
    }
    if (const auto path = group_path(root, "memory")) {
        for (const std::string & dir : group_directories(root + "/sys/fs/cgroup/memory", *path)) {
            const auto limit = read_number(dir + "/memory.limit_in_bytes");
            const auto used  = read_number(dir + "/memory.usage_in_bytes");
            if (!limit || !used) continue;
            const auto stat = read_text(dir + "/memory.stat");
            left            = std::min(
                left, left_in_group(*limit, *used, stat ? find_field(*stat, "total_inactive_file ").value_or(0) : 0));
        }
    }
    return left;
}

// Whole processors of the tightest quota; INT_MAX when there is none.
int group_cpu_quota(const std::string & root) {
    uint64_t cpus   = static_cast<uint64_t>(std::numeric_limits<int>::max());
    const auto take = [&](std::optional<uint64_t> quota, std::optional<uint64_t> period) {
        if (quota && period && *period > 0) cpus = std::min(cpus, std::max<uint64_t>(1, *quota / *period));
    };
    if (const auto path = group_path(root, "")) {
        for (const std::string & mount : {root + "/sys/fs/cgroup", root + "/sys/fs/cgroup/unified"}) {
            for (const std::string & dir : group_directories(mount, *path)) {
                const auto text = read_text(dir + "/cpu.max"); // "max 100000" or "150000 100000"
                if (!text) continue;
                const size_t space = text->find(' ');
                if (space != std::string::npos)
                    take(parse_number(*text), parse_number(std::string_view(*text).substr(space)));
            }
        }
    }
    if (const auto path = group_path(root, "cpu")) {
        for (const std::string & mount : {root + "/sys/fs/cgroup/cpu", root + "/sys/fs/cgroup/cpu,cpuacct"}) {
            for (const std::string & dir : group_directories(mount, *path)) {
                take(read_number(dir + "/cpu.cfs_quota_us"), read_number(dir + "/cpu.cfs_period_us")); // "-1" = none
            }
        }
    }
    return static_cast<int>(cpus);
}

std::vector<int> allowed_cpus() {
    for (int capacity = 1024; capacity <= (1 << 20); capacity *= 4) {
        cpu_set_t * set = CPU_ALLOC(static_cast<size_t>(capacity));
        if (set == nullptr) break;
        const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(capacity));
        CPU_ZERO_S(bytes, set);
        std::vector<int> cpus;
        const bool ok = ::sched_getaffinity(0, bytes, set) == 0;
        for (int i = 0; ok && i < capacity; i++) {
            if (CPU_ISSET_S(static_cast<size_t>(i), bytes, set)) cpus.push_back(i);
        }
        CPU_FREE(set);
        if (ok) return cpus;
    }
    return {};
}

} // namespace

uint64_t available_memory_bytes(const std::string & root) {
    uint64_t available = UNLIMITED;
    const auto meminfo = read_text(root + "/proc/meminfo");
    if (meminfo) {
        if (const auto kib = find_field(*meminfo, "MemAvailable:")) available = *kib * 1024;
    }
    available = std::min(available, group_memory_left(root));
    return available == UNLIMITED ? 0 : available;
}

int physical_cpu_count(const std::string & root) {
    const std::vector<int> cpus = allowed_cpus();
    int n                       = static_cast<int>(cpus.size());
    if (cpus.empty()) n = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    std::set<std::string> cores;
    for (const int cpu : cpus) {
        const std::string dir = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
        auto core             = read_text(dir + "thread_siblings_list"); // equal for the threads of one core
        if (!core || core->empty()) {
            cores.clear();
            break;
        }
        cores.insert(std::move(*core));
    }
    if (!cores.empty()) n = static_cast<int>(cores.size());
    return std::max(1, std::min(n, group_cpu_quota(root)));
}

int64_t process_id() {
    return getpid();
}

uint64_t resident_bytes() {
    const auto text = read_text("/proc/self/statm");
    if (!text) return 0;
    const size_t space = text->find(' ');
    if (space == std::string::npos) return 0;
    const auto pages = parse_number(std::string_view(*text).substr(space));
    return pages ? *pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

} // namespace pyspec
