#include "sampling/rejection.h"

#include "sampling/accept_loop.h"
#include "sampling/gumbel_max.h"

#include <algorithm>
#include <cmath>

namespace pyspec {
namespace {

constexpr double rounding = 1e-6; // a residual with less mass is what rounding left of nothing

bool by_id(const WeightedToken & a, const WeightedToken & b) noexcept {
    return a.token < b.token;
}

// Probability of a token in a list in ascending id order.
double probability(const std::vector<WeightedToken> & law, int32_t token) noexcept {
    const auto at = std::lower_bound(law.begin(), law.end(), WeightedToken{token, 0.0}, by_id);
    return at != law.end() && at->token == token ? at->p : 0.0;
}

// The law in id order. Errors: OPTION when it is none.
DraftLaw checked(DraftLaw law, int32_t place) {
    std::sort(law.begin(), law.end(), by_id);
    double sum = 0.0;
    for (size_t i = 0; i < law.size(); ++i) {
        if (!(law[i].p >= 0.0)) {
            throw Error(PYSPEC_OPTION, format("draft law %d gives token %d the probability %g; allowed: 0 to 1", place,
                                              law[i].token, law[i].p));
        }
        if (i > 0 && law[i].token == law[i - 1].token) {
            throw Error(PYSPEC_OPTION, format("draft law %d names token %d twice", place, law[i].token));
        }
        sum += law[i].p;
    }
    if (!(std::abs(sum - 1.0) <= 1e-3)) {
        throw Error(PYSPEC_OPTION, format("the probabilities of draft law %d add up to %g; allowed: 1, over exactly "
                                          "the tokens it was drawn from",
                                          place, sum));
    }
    return law;
}

} // namespace

double acceptance_probability(const std::vector<WeightedToken> & p, const DraftLaw & q, int32_t drafted) noexcept {
    const double of_q = probability(q, drafted);
    if (of_q <= 0.0) return 0.0;
    const double of_p = probability(p, drafted);
    return of_p >= of_q ? 1.0 : of_p / of_q;
}

std::vector<WeightedToken> residual_law(const std::vector<WeightedToken> & p, const DraftLaw & q) {
    std::vector<WeightedToken> left = p;
    double sum                      = 0.0;
    for (WeightedToken & t : left) {
        t.p = std::max(0.0, t.p - probability(q, t.token));
        sum += t.p;
    }
    if (sum < rounding) return p;
    for (WeightedToken & t : left) t.p /= sum;
    return left;
}

RejectionVerdict accept_rejection(Sampler & sampler, const Verification & v, const std::vector<DraftLaw> & laws,
                                  int32_t * out) {
    if (sampler.params().temperature <= 0.0f) { // one token is certain: both rules say the same
        const Verdict verdict = accept_match(sampler, v, out);
        return {verdict.n_out, verdict.n_accepted, 0};
    }
    if (const char * reason = rejection_refusal(sampler.params())) throw Error(PYSPEC_UNSUPPORTED, reason);
    if (v.n_draft >= 0 && laws.size() != static_cast<size_t>(v.n_draft)) {
        throw Error(PYSPEC_OPTION, format("%zu draft laws were given for %d draft tokens", laws.size(), v.n_draft));
    }
    std::vector<DraftLaw> q;
    for (size_t i = 0; i < laws.size(); ++i) {
        q.push_back(laws[i].empty() ? DraftLaw{} : checked(laws[i], static_cast<int32_t>(i)));
    }
    int32_t n_coins = 0;
    std::vector<WeightedToken> p;
    const Verdict verdict = accept_rows(sampler, v, out, [&](int32_t i, const LogitRow & row) -> Step {
        if (i == v.n_draft || q[static_cast<size_t>(i)].empty()) {
            const Choice choice = sampler.choose(row);
            return {choice, i < v.n_draft && choice.token == v.draft[i]};
        }
        const DraftLaw & law = q[static_cast<size_t>(i)];
        sampler.distribution(row, p);
        const double chance = acceptance_probability(p, law, v.draft[i]);
        bool accepted       = chance >= 1.0;
        if (chance > 0.0 && chance < 1.0) {
            ++n_coins;
            accepted = sampler.noise(Purpose::accept).uniform(0) < chance;
        }
        if (accepted) return {{v.draft[i], 0.0}, true};
        return {{gumbel_max(residual_law(p, law), sampler.noise(Purpose::residual)), 0.0}, false};
    });
    return {verdict.n_out, verdict.n_accepted, n_coins};
}

const char * rejection_refusal(const SamplerParams & params) noexcept {
    if (params.has_mirostat()) {
        return "mirostat cannot be combined with rejection sampling: its state follows the probability of the token "
               "that plain sampling would draw. Use the default acceptance (match), or set mirostat to 0";
    }
    return nullptr;
}

} // namespace pyspec
