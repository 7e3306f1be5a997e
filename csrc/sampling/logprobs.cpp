#include "sampling/logprobs.h"

#include "sampling/scan.h"
#include "support/error.h"

#include <cmath>
#include <limits>

namespace pyspec {
namespace {

void check_range(const char * what, int32_t found, int32_t low, int32_t high) {
    if (found < low || found > high) {
        throw Error(PYSPEC_OPTION, format("%s is %d; allowed: %d to %d", what, found, low, high));
    }
}

} // namespace

float logprobs(const float * logits, int32_t n_vocab, int32_t token, int32_t n_top, std::vector<TokenLogprob> & top) {
    check_range("n_vocab", n_vocab, 1, std::numeric_limits<int32_t>::max());
    check_range("token", token, 0, n_vocab - 1);
    check_range("n_top", n_top, 0, n_vocab);

    const double max = logits[arg_max({logits, n_vocab})];
    double sum       = 0.0;
    for (int32_t i = 0; i < n_vocab; ++i) {
        const double below = static_cast<double>(logits[i]) - max;
        if (below > -60.0)
            sum += std::exp(below); // 2^31 smaller terms together stay below the last bit of the sum (>= 1)
    }
    const double log_sum = std::log(sum);
    const auto value     = [&](float logit) { return static_cast<float>(static_cast<double>(logit) - max - log_sum); };

    std::vector<TokenLogprob> result;
    if (n_top > 0) {
        std::vector<ScoredToken> best;
        top_k_of_row({logits, n_vocab}, n_top, best);
        result.reserve(static_cast<size_t>(n_top));
        for (const ScoredToken & t : best) result.push_back({t.token, value(t.logit)});
        // The caller gets n_top entries even when fewer tokens are possible.
        for (int32_t i = 0; i < n_vocab && result.size() < static_cast<size_t>(n_top); ++i) {
            if (logits[i] == -std::numeric_limits<float>::infinity()) result.push_back({i, logits[i]});
        }
    }
    top.swap(result);
    return value(logits[token]);
}

DraftChoice draft_choice(const float * logits, const float * maxima, int32_t n_vocab, int32_t n_allowed,
                         int32_t n_best) {
    check_range("n_allowed", n_allowed, 1, n_vocab);
    check_range("n_best", n_best, 1, std::numeric_limits<int32_t>::max());

    std::vector<ScoredToken> best;
    top_k_of_row({logits, n_allowed, maxima}, n_best, best);
    double sum = 0.0;
    for (const ScoredToken & t : best)
        sum += std::exp(static_cast<double>(t.logit) - static_cast<double>(best[0].logit));
    return {best[0].token, static_cast<float>(1.0 / sum)};
}

} // namespace pyspec
