#include "sampling/gumbel_max.h"

#include <cmath>
#include <limits>

namespace pyspec {
namespace {

// Could a candidate whose score without noise is `behind` below the best score still win with this uniform? False only
// if it surely could not. Since -ln u >= 1 - u, its noise is at most -ln(1 - u), so winning needs (1 - u) * exp(behind)
// < 1, and exp is at least its truncated series. This saves two logarithms for nearly every token of an unfiltered row.
bool could_win(double behind, double u) noexcept {
    if (behind <= 0.0) return true;
    const double exp_at_least = 1.0 + behind * (1.0 + behind * (0.5 + behind * (1.0 / 6.0)));
    return (1.0 - u) * exp_at_least < 1.0 + 1e-9; // rounding errors are far smaller than this slack
}

} // namespace

int32_t gumbel_max(const CandidateList & list, double temperature, const Noise & noise) {
    // Scores are log p up to a constant. Taking the maximum off first keeps them small, so that noise still decides
    // between equal logits at a temperature close to 0.
    const double max  = largest_logit(list);
    int32_t best      = -1;
    double best_score = -std::numeric_limits<double>::infinity();
    for (const Candidate & c : list.items) {
        const double quiet = (static_cast<double>(c.logit) - max) / temperature;
        const double u     = noise.uniform(c.token);
        if (best >= 0 && !could_win(best_score - quiet, u)) continue;
        const double score = quiet + gumbel_from_uniform(u);
        if (best < 0 || score > best_score || (score == best_score && c.token < best)) {
            best       = c.token;
            best_score = score;
        }
    }
    return best;
}

int32_t gumbel_max(const std::vector<WeightedToken> & weights, const Noise & noise) noexcept {
    int32_t best      = -1;
    double best_score = 0.0;
    for (const WeightedToken & t : weights) {
        if (t.p <= 0.0) continue;
        const double score = std::log(t.p) + noise.gumbel(t.token);
        if (best < 0 || score > best_score) {
            best       = t.token;
            best_score = score;
        }
    }
    return best;
}

} // namespace pyspec
