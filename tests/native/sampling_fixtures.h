// Rows, settings and statistics shared by the tests of csrc/sampling.
#pragma once

#include "check.h"

#include "sampling/filters.h"
#include "sampling/philox.h"
#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace pyspec {

inline constexpr float inf      = std::numeric_limits<float>::infinity();
inline constexpr float nan_     = std::numeric_limits<float>::quiet_NaN();
using Tokens                    = std::vector<int32_t>;
inline constexpr auto row_noise = static_cast<Purpose>(1000); // a stream that no tested code uses

inline std::string text(const Tokens & tokens) {
    std::string s;
    for (int32_t t : tokens) s += std::to_string(t) + " ";
    return s;
}

inline std::vector<float> log_of(const std::vector<double> & p) {
    std::vector<float> logits;
    for (double x : p) logits.push_back(static_cast<float>(std::log(x)));
    return logits;
}

inline std::vector<float> random_row(int32_t n, uint64_t seed, double scale = 4.0) {
    std::vector<float> row(static_cast<size_t>(n));
    for (int32_t i = 0; i < n; ++i) {
        row[static_cast<size_t>(i)] = static_cast<float>(scale * gumbel(seed, 0, static_cast<uint32_t>(i), row_noise));
    }
    return row;
}

inline SamplerParams plain(float temperature) { // no filters
    SamplerParams p;
    p.temperature = temperature;
    p.top_k       = 0;
    p.top_p       = 1.0f;
    p.min_p       = 0.0f;
    return p;
}

inline SamplerParams with(SamplerParams p, const std::function<void(SamplerParams &)> & change) {
    change(p);
    return p;
}

inline CandidateList list_of(const std::vector<float> & logits) {
    CandidateList list;
    gather_candidates({logits.data(), static_cast<int32_t>(logits.size())}, 0, list);
    return list;
}

inline Tokens in_list_order(const CandidateList & list) {
    Tokens tokens;
    for (const Candidate & c : list.items) tokens.push_back(c.token);
    return tokens;
}

inline Tokens ids(const CandidateList & list) {
    Tokens tokens = in_list_order(list);
    std::sort(tokens.begin(), tokens.end());
    return tokens;
}

inline void expect(const Tokens & got, const Tokens & wanted, const char * file, int line) {
    check::equal(text(got), text(wanted), "got", "wanted", file, line);
}
#define EXPECT_TOKENS(got, ...) expect((got), Tokens __VA_ARGS__, __FILE__, __LINE__)

// Upper 1e-4 quantile of chi-square (Wilson and Hilferty 1931). Seeds are fixed, so a failure is never bad luck.
inline double chi_square_limit(int degrees) {
    const double k = degrees, a = 2.0 / (9.0 * k);
    return k * std::pow(1.0 - a + 3.719 * std::sqrt(a), 3.0);
}

inline double chi_square(const std::vector<int> & seen, const std::vector<double> & p, int n) {
    double sum = 0.0;
    for (size_t i = 0; i < seen.size(); ++i) sum += (seen[i] - n * p[i]) * (seen[i] - n * p[i]) / (n * p[i]);
    return sum;
}

// What a sampler says about a fixed set of rows; two samplers that say the same are taken for equal.
inline std::string observe(Sampler s) {
    std::string said = std::to_string(s.n_history()) + "/" + std::to_string(s.index()) + ":";
    for (uint64_t i = 0; i < 12; ++i) {
        const std::vector<float> row = random_row(s.n_vocab(), 1000 + i, 0.5);
        const Choice choice          = s.choose({row.data(), s.n_vocab()});
        std::vector<float> p(static_cast<size_t>(s.n_vocab()));
        const int32_t n = s.candidates(row.data(), nullptr, p.data(), s.n_vocab());
        said += std::to_string(choice.token) + " of " + std::to_string(n) + " at " + std::to_string(p[0]) + ", ";
        s.advance(choice);
    }
    return said;
}

} // namespace pyspec
