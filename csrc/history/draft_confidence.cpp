#include "history/draft_confidence.h"

#include <algorithm>
#include <cmath>

namespace pyspec {
namespace {

double logit_of(double probability) noexcept {
    const double p = std::clamp(probability, 0.001, 0.999);
    return std::log(p / (1.0 - p));
}

} // namespace

double sigmoid(double logit) noexcept {
    return 1.0 / (1.0 + std::exp(-logit));
}

double copy_logit(const CopyEvidence & e) noexcept {
    const double against = e.total - e.count;
    double logit         = -1.41 + 0.83 * std::log(e.match + 1.0) + 1.43 * std::log(static_cast<double>(e.count)) -
                           1.67 * std::log(against + 1.0) + 0.22 * std::log(static_cast<double>(e.degree));
    if (e.place > 1) logit += 0.16 + 0.63 * std::min(e.place - 1, 4u) / 4.0;
    if (e.total == 1) logit += 0.40;
    return logit;
}

int Calibration::bin(double probability) noexcept {
    return std::clamp(static_cast<int>(probability * n_bins), 0, n_bins - 1);
}

double Calibration::corrected(double logit, int bin) const noexcept {
    return sigmoid(logit + bins_[static_cast<size_t>(bin)].shift);
}

void Calibration::observe(double probability, bool right) noexcept {
    Bin & b             = bins_[static_cast<size_t>(bin(probability))];
    b.n                 = b.n * fading + 1.0;
    b.right             = b.right * fading + (right ? 1.0 : 0.0);
    b.expected          = b.expected * fading + probability;
    const double mean   = b.expected / b.n;
    const double actual = (b.right + shrinkage * mean) / (b.n + shrinkage);
    b.shift             = logit_of(actual) - logit_of(mean);
}

} // namespace pyspec
