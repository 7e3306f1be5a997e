#include "support/text.h"

#include "support/error.h"

namespace pyspec {

std::string quote_bytes(std::string_view bytes, size_t max_bytes) {
    static const char hex[] = "0123456789abcdef";
    std::string out         = "'";
    for (const char c : bytes.substr(0, max_bytes)) {
        const auto u = static_cast<unsigned char>(c);
        if (u >= 0x20 && u < 0x7f) {
            out += c;
        } else {
            out += "\\x";
            out += hex[u >> 4];
            out += hex[u & 15];
        }
    }
    out += "'";
    if (bytes.size() > max_bytes) out += "...";
    return out;
}

std::string byte_size(uint64_t bytes) {
    const auto n = static_cast<unsigned long long>(bytes);
    if (bytes < 10240) return format("%llu bytes", n);
    static const char * const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value                      = static_cast<double>(bytes) / 1024.0;
    int unit                          = 0;
    while (value >= 1024.0 && unit < 5) {
        value /= 1024.0;
        unit++;
    }
    return format("%.1f %s (%llu bytes)", value, units[unit], n);
}

} // namespace pyspec
