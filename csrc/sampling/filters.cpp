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

} // namespace

float largest_logit(const CandidateList & list) noexcept {
    if (list.n_sorted > 0) return list.items[0].logit;
    float max = list.items[0].logit;
    for (const Candidate & c : list.items) max = c.logit > max ? c.logit : max;
    return max;
}

void gather_candidates(const float * logits, int32_t n, int32_t top_k, CandidateList & list, const float * maxima) {
    list.items.clear();
    list.n_sorted = 0;
    if (top_k > 0 && top_k < n) {
        std::vector<ScoredToken> best;
        top_k_of_row(logits, n, top_k, best, maxima);
        list.items.reserve(best.size());
        for (const ScoredToken & t : best) list.items.push_back({t.token, t.logit, 0.0});
        list.n_sorted = list.items.size();
        return;
    }
    arg_max(logits, n, maxima); // refuses rows without a choice
    list.items.reserve(static_cast<size_t>(n));
    for (int32_t i = 0; i < n; ++i) {
        if (logits[i] != -std::numeric_limits<float>::infinity()) list.items.push_back({i, logits[i], 0.0});
    }
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

void filter_top_k(CandidateList & list, int32_t k) {
    if (k <= 0 || static_cast<size_t>(k) >= list.items.size()) return;
    const size_t kept = static_cast<size_t>(k);
    sort_prefix(list, kept);
    list.items.resize(kept);
}

void filter_typical(CandidateList & list, float typical_p) {
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
        if (sum > typical_p) break;
    }
    list.items.clear();
    for (size_t i = 0; i < kept; ++i) list.items.push_back(ordered[i].candidate);
    list.n_sorted = 0;
}

void filter_top_p(CandidateList & list, float top_p) {
    if (top_p >= 1.0f) return;
    softmax(list);
    size_t kept = 0;
    double sum  = 0.0;
    while (kept < list.items.size()) {
        if (kept == list.n_sorted) sort_prefix(list, next_prefix(list.n_sorted));
        sum += list.items[kept++].p;
        if (sum >= top_p) break;
    }
    list.items.resize(kept);
    list.n_sorted = std::min(list.n_sorted, kept);
}

void filter_min_p(CandidateList & list, float min_p) {
    if (min_p <= 0.0f) return;
    // p >= min_p * max p, without the exponentials. The best candidate always stays: ln(min_p) <= 0.
    const double lowest = static_cast<double>(largest_logit(list)) + std::log(static_cast<double>(min_p));
    const auto stays    = [&](const Candidate & c) { return static_cast<double>(c.logit) >= lowest; };
    size_t kept         = 0;
    for (size_t i = 0; i < list.items.size(); ++i) {
        if (stays(list.items[i])) list.items[kept++] = list.items[i];
    }
    // What stays is better than what goes, so the sorted prefix stays one.
    list.n_sorted = std::min(list.n_sorted, kept);
    list.items.resize(kept);
}

} // namespace pyspec
