#include "history/acceptance_record.h"

#include <algorithm>
#include <cmath>

namespace pyspec {

namespace {

constexpr float discount     = 0.98f;
constexpr float prior_weight = 4.0f;

} // namespace

float acceptance_prior(double length, double count, double n_seen, double n_next, size_t position) {
    const double others = std::max(0.0, n_seen - count);
    double x            = -1.41 + 0.83 * std::log(length + 1.0) + 1.43 * std::log(std::max(1.0, count)) -
                          1.67 * std::log(others + 1.0) + 0.22 * std::log(std::max(1.0, n_next));
    if (position > 0) x += 0.16 + 0.63 * static_cast<double>(std::min<size_t>(position, 4)) / 4.0;
    if (n_seen <= 1.0) x += 0.40;
    return static_cast<float>(1.0 / (1.0 + std::exp(-x)));
}

AcceptanceRecord::AcceptanceRecord(size_t n_classes) : counts_(n_positions * n_classes), open_(max_open) {}

float AcceptanceRecord::estimate(uint8_t evidence, size_t position, float prior) const {
    const Counts & c = counts_[evidence * n_positions + std::min(position, n_positions - 1)];
    return (c.accepted + prior_weight * prior) / (c.accepted + c.rejected + prior_weight);
}

void AcceptanceRecord::open(const int32_t * tokens, const uint8_t * evidence, size_t n) {
    if (n_open_ == max_open) {
        std::rotate(open_.begin(), open_.begin() + 1, open_.end());
        --n_open_;
    }
    Open & draft = open_[n_open_++];
    draft.tokens.assign(tokens, tokens + n);
    draft.evidence.assign(evidence, evidence + n);
    draft.seen = 0;
}

void AcceptanceRecord::observe(const int32_t * emitted, size_t n) {
    size_t n_left = 0;
    for (size_t i = 0; i < n_open_; ++i) {
        Open & draft = open_[i];
        bool right   = true;
        for (size_t j = 0; j < n && right && draft.seen < draft.tokens.size(); ++j) {
            right = emitted[j] == draft.tokens[draft.seen];
            count(draft.evidence[draft.seen], draft.seen, right);
            draft.seen += right ? 1 : 0;
        }
        if (right && draft.seen < draft.tokens.size()) {
            if (n_left != i) std::swap(open_[n_left], draft);
            ++n_left;
        }
    }
    n_open_ = n_left;
}

size_t AcceptanceRecord::memory_bytes() const {
    size_t bytes = counts_.capacity() * sizeof(Counts) + open_.capacity() * sizeof(Open);
    for (const Open & draft : open_) {
        bytes += draft.tokens.capacity() * sizeof(int32_t) + draft.evidence.capacity();
    }
    return bytes;
}

void AcceptanceRecord::count(uint8_t evidence, size_t position, bool accepted) {
    Counts & c = counts_[evidence * n_positions + std::min(position, n_positions - 1)];
    c.accepted *= discount;
    c.rejected *= discount;
    (accepted ? c.accepted : c.rejected) += 1.0f;
}

} // namespace pyspec
