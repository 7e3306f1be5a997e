#include "sampling/penalties.h"

#include <algorithm>

namespace pyspec {
namespace {

auto position(std::vector<PenaltyCounts::Entry> & entries, int32_t token) {
    return std::lower_bound(entries.begin(), entries.end(), token,
                            [](const PenaltyCounts::Entry & e, int32_t t) { return e.token < t; });
}

} // namespace

void PenaltyCounts::add(int32_t token) {
    const auto at = position(entries_, token);
    if (at != entries_.end() && at->token == token) {
        ++at->count;
    } else {
        entries_.insert(at, Entry{token, 1});
    }
}

void PenaltyCounts::remove(int32_t token) {
    const auto at = position(entries_, token);
    if (--at->count == 0) entries_.erase(at);
}

float penalised(float logit, int32_t count, float repeat, float frequency, float presence) noexcept {
    // In double every product of two floats is exact, so the result does not depend on whether a compiler fuses it.
    double value = logit;
    value        = static_cast<float>(value <= 0.0 ? value * repeat : value / repeat);
    value -= static_cast<double>(count) * frequency + presence;
    return static_cast<float>(value);
}

} // namespace pyspec
