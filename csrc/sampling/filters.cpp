#include "sampling/filters.h"

#include "sampling/scan.h"
#include "support/error.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pyspec {
namespace {

bool better(const Candidate & a, const Candidate & b) noexcept {
    return ranks_before(a.logit, a.token, b.logit, b.token);
}

std::ptrdiff_t offset(size_t i) noexcept {
    return static_cast<std::ptrdiff_t>(i);
}

// items[0 .. sorted) are in order and rank before the rest; extends that to `count` items. Sorting only what is looked
// at matters when top-k is off: a nucleus is a few dozen tokens of 150,000.
template <typename Item, typename Before>
void extend_sorted(std::vector<Item> & items, size_t & sorted, size_t count, Before before) {
    count = std::min(count, items.size());
    if (count <= sorted) return;
    if (count < items.size()) {
        std::nth_element(items.begin() + offset(sorted), items.begin() + offset(count - 1), items.end(), before);
    }
    std::sort(items.begin() + offset(sorted), items.begin() + offset(count), before);
    sorted = count;
}

size_t next_prefix(size_t sorted) noexcept {
    return sorted == 0 ? 128 : 4 * sorted;
}

// Drops logits below `lowest`, but keeps the min_keep best in any case.
void keep_at_least(CandidateList & list, double lowest, size_t min_keep) {
    const auto stays = [&](const Candidate & c) { return static_cast<double>(c.logit) >= lowest; };
    size_t kept      = 0;
    if (min_keep > 1) {
        kept = static_cast<size_t>(std::count_if(list.items.begin(), list.items.end(), stays));
        if (kept < min_keep) return filter_top_k(list, static_cast<int32_t>(min_keep));
        kept = 0;
    }
    for (size_t i = 0; i < list.items.size(); ++i) {
        if (stays(list.items[i])) list.items[kept++] = list.items[i];
    }
    // What stays is better than what goes, so the sorted prefix stays one.
    list.n_sorted = std::min(list.n_sorted, kept);
    list.items.resize(kept);
}

} // namespace

float largest_logit(const CandidateList & list) noexcept {
    if (list.n_sorted > 0) return list.items[0].logit;
    float max = list.items[0].logit;
    for (const Candidate & c : list.items) max = c.logit > max ? c.logit : max;
    return max;
}

void gather_candidates(const LogitRow & row, int32_t top_k, CandidateList & list) {
    std::vector<ScoredToken> found;
    const bool best_only = top_k > 0 && top_k < row.n;
    if (best_only) {
        top_k_of_row(row, top_k, found);
    } else {
        allowed_of_row(row, found);
    }
    list.items.clear();
    list.items.reserve(found.size());
    for (const ScoredToken & t : found) list.items.push_back({t.token, t.logit, 0.0});
    list.n_sorted = best_only ? list.items.size() : 0;
}

void sort_prefix(CandidateList & list, size_t count) {
    extend_sorted(list.items, list.n_sorted, count, better);
}

void softmax(CandidateList & list, double temperature) {
    const double max = largest_logit(list);
    double sum       = 0.0;
    for (Candidate & c : list.items) {
        c.p = std::exp((static_cast<double>(c.logit) - max) / temperature);
        sum += c.p;
    }
    for (Candidate & c : list.items) c.p /= sum;
}

void filter_top_n_sigma(CandidateList & list, float n) {
    if (n <= 0.0f) return;
    const double count = static_cast<double>(list.items.size());
    double sum         = 0.0;
    for (const Candidate & c : list.items) sum += c.logit;
    const double mean = sum / count;
    double squares    = 0.0;
    for (const Candidate & c : list.items) {
        const double off = c.logit - mean;
        squares += off * off;
    }
    const double lowest = largest_logit(list) - static_cast<double>(n) * std::sqrt(squares / count);
    keep_at_least(list, lowest, 1);
}

void filter_top_k(CandidateList & list, int32_t k) {
    if (k <= 0 || static_cast<size_t>(k) >= list.items.size()) return;
    const size_t kept = static_cast<size_t>(k);
    sort_prefix(list, kept);
    list.items.resize(kept);
}

void filter_typical(CandidateList & list, float typical_p, size_t min_keep) {
    if (typical_p >= 1.0f) return;
    softmax(list);
    double entropy = 0.0;
    for (const Candidate & c : list.items) {
        if (c.p > 0.0) entropy -= c.p * std::log(c.p); // p underflows to 0 for logits more than 745 below the best
    }
    struct Distant {
        Candidate candidate;
        double distance;
    };
    std::vector<Distant> ordered;
    ordered.reserve(list.items.size());
    for (const Candidate & c : list.items) {
        const double surprise = c.p > 0.0 ? -std::log(c.p) : std::numeric_limits<double>::infinity();
        ordered.push_back({c, std::abs(surprise - entropy)});
    }
    const auto closer = [](const Distant & a, const Distant & b) {
        return a.distance != b.distance ? a.distance < b.distance : better(a.candidate, b.candidate);
    };
    size_t sorted = 0;
    size_t kept   = 0;
    double sum    = 0.0;
    while (kept < ordered.size()) {
        if (kept == sorted) extend_sorted(ordered, sorted, next_prefix(sorted), closer);
        sum += ordered[kept++].candidate.p;
        if (sum > typical_p && kept >= min_keep) break;
    }
    list.items.clear();
    for (size_t i = 0; i < kept; ++i) list.items.push_back(ordered[i].candidate);
    list.n_sorted = 0;
}

void filter_top_p(CandidateList & list, float top_p, size_t min_keep) {
    if (top_p >= 1.0f) return;
    softmax(list);
    size_t kept = 0;
    double sum  = 0.0;
    while (kept < list.items.size()) {
        if (kept == list.n_sorted) sort_prefix(list, next_prefix(list.n_sorted));
        sum += list.items[kept++].p;
        if (sum >= top_p && kept >= min_keep) break;
    }
    list.items.resize(kept);
    list.n_sorted = std::min(list.n_sorted, kept);
}

void filter_min_p(CandidateList & list, float min_p, size_t min_keep) {
    if (min_p <= 0.0f) return;
    // p >= min_p * max p, without the exponentials. The best candidate always stays: ln(min_p) <= 0.
    keep_at_least(list, static_cast<double>(largest_logit(list)) + std::log(static_cast<double>(min_p)), min_keep);
}

void filter_xtc(CandidateList & list, float threshold, size_t min_keep) {
    if (threshold > 0.5f || list.items.size() < 2) return;
    softmax(list);
    size_t n_likely = 0;
    while (n_likely < list.items.size()) {
        if (n_likely == list.n_sorted) sort_prefix(list, next_prefix(list.n_sorted));
        if (list.items[n_likely].p < threshold) break;
        ++n_likely;
    }
    if (n_likely < 2) return;
    const size_t n_dropped = n_likely - 1;
    if (list.items.size() - n_dropped < min_keep) return;
    list.items.erase(list.items.begin(), list.items.begin() + offset(n_dropped));
    list.n_sorted -= n_dropped;
}

void filter_mirostat(CandidateList & list, double temperature, double mu) {
    softmax(list, temperature);
    const double least   = std::exp2(-mu);
    const auto best      = std::min_element(list.items.begin(), list.items.end(), better);
    const Candidate kept = *best;
    std::erase_if(list.items, [&](const Candidate & c) { return c.p < least; });
    if (list.items.empty()) list.items.push_back(kept);
    list.n_sorted = std::min(list.n_sorted, list.items.size());
}

double dynamic_temperature(CandidateList & list, double temperature, double range, double exponent) {
    if (range <= 0.0 || list.items.size() < 2) return temperature;
    softmax(list);
    double entropy = 0.0;
    for (const Candidate & c : list.items) {
        if (c.p > 0.0) entropy -= c.p * std::log(c.p);
    }
    const double share = std::clamp(entropy / std::log(static_cast<double>(list.items.size())), 0.0, 1.0);
    const double low   = std::max(0.0, temperature - range);
    return low + (temperature + range - low) * std::pow(share, exponent);
}

} // namespace pyspec
