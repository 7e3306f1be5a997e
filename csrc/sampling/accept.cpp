#include "sampling/accept.h"

#include "sampling/accept_loop.h"

#include <cmath>

namespace pyspec {

Verdict accept_match(Sampler & sampler, const Verification & v, int32_t * out) {
    return accept_rows(sampler, v, out, [&](int32_t i, const LogitRow & row) -> Step {
        const Choice choice = sampler.choose(row);
        return {choice, i < v.n_draft && choice.token == v.draft[i]};
    });
}

Verdict accept_replay(Sampler & sampler, const Verification & v, int32_t * out) {
    return accept_rows(sampler, v, out, [&](int32_t i, const LogitRow & row) -> Step {
        if (i < v.n_draft) return {sampler.as_choice(row, v.draft[i]), true};
        return {sampler.choose(row), false};
    });
}

Verdict accept_synthetic(Sampler & sampler, const Verification & v, const double * rates, int32_t n_rates,
                         int32_t * out) {
    check_synthetic_rates(rates, n_rates);
    if (v.n_draft > n_rates) {
        throw Error(PYSPEC_OPTION, format("the draft has %d tokens, but there are synthetic rates for %d; allowed: "
                                          "drafts that have a rate for every place",
                                          v.n_draft, n_rates));
    }
    return accept_rows(sampler, v, out, [&](int32_t i, const LogitRow & row) -> Step {
        if (i < v.n_draft && !(v.is_end && v.is_end(v.draft[i]))) {
            const double before = i == 0 ? 1.0 : rates[i - 1];
            const double chance = before > 0.0 ? rates[i] / before : 0.0;
            // The uniform is never 0 or 1, so rates of 0 and 1 are kept exactly.
            if (sampler.noise(Purpose::synthetic).uniform(0) < chance) {
                return {sampler.as_choice(row, v.draft[i]), true};
            }
        }
        return {sampler.choose(row), false};
    });
}

void check_synthetic_rates(const double * rates, int32_t n) {
    double before = 1.0;
    for (int32_t i = 0; i < n; ++i) {
        if (!(rates[i] >= 0.0 && rates[i] <= before)) { // written so that NaN fails
            throw Error(PYSPEC_OPTION, format("synthetic rate %d is %g; allowed: 0 to %g (each at most the one before)",
                                              i + 1, rates[i], before));
        }
        before = rates[i];
    }
}

void synthetic_rates(double length, int32_t n, double * rates) {
    if (n < 1) throw Error(PYSPEC_OPTION, format("the longest draft is %d; allowed: 1 or more", n));
    if (!(length >= 1.0 && length <= n + 1.0)) {
        throw Error(PYSPEC_OPTION, format("the mean length is %g; allowed: 1 to %d", length, n + 1));
    }
    const auto mean = [&](double p) {
        double sum = 1.0, power = 1.0;
        for (int32_t i = 0; i < n; ++i) sum += power *= p;
        return sum;
    };
    double low = 0.0, high = 1.0;
    for (int step = 0; step < 60; ++step) {
        const double middle                  = 0.5 * (low + high);
        (mean(middle) < length ? low : high) = middle;
    }
    const double p = length <= 1.0 ? 0.0 : length >= n + 1.0 ? 1.0 : 0.5 * (low + high);
    double power   = 1.0;
    for (int32_t i = 0; i < n; ++i) rates[i] = power *= p;
}

} // namespace pyspec
