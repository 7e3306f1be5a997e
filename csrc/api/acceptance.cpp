#include "api/handles.h"
#include "sampling/accept.h"
#include "sampling/rejection.h"

#include <algorithm>
#include <utility>
#include <vector>

using namespace pyspec;
using namespace pyspec::api;

namespace {

Verification from_c(const pyspec_verification * v) {
    need(v, "verification");
    need(v->rows, "rows");
    if (v->n_draft > 0) need(v->draft, "draft");
    if (v->n_end < 0) throw Error(PYSPEC_OPTION, format("n_end is %d; allowed: 0 or more", v->n_end));
    if (v->n_end > 0) need(v->end_tokens, "end_tokens");
    const auto is_end = [model = v->model, first = v->end_tokens, n = v->n_end](int32_t token) {
        return pyspec_token_is_eog(model, token) || std::find(first, first + n, token) != first + n;
    };
    return {v->rows, v->maxima, v->masks, v->draft, v->n_draft, v->n_max, is_end};
}

void need_results(const pyspec_sampler * sampler, const pyspec_token * out, const int32_t * n_out,
                  const int32_t * n_accepted) {
    need(sampler, "sampler");
    need(out, "out");
    need(n_out, "n_out");
    need(n_accepted, "n_accepted");
}

std::vector<WeightedToken> law(const pyspec_token * tokens, const double * p, int32_t n) {
    std::vector<WeightedToken> out;
    out.reserve(static_cast<size_t>(n));
    for (int32_t i = 0; i < n; ++i) out.push_back({tokens[i], p[i]});
    return out;
}

} // namespace

pyspec_status pyspec_accept_match(pyspec_sampler * sampler, const pyspec_verification * v, pyspec_token * out,
                                  int32_t * n_out, int32_t * n_accepted) {
    return guarded([&] {
        need_results(sampler, out, n_out, n_accepted);
        const Verdict verdict = accept_match(sampler->sampler, from_c(v), out);
        *n_out                = verdict.n_out;
        *n_accepted           = verdict.n_accepted;
    });
}

pyspec_status pyspec_accept_rejection(pyspec_sampler * sampler, const pyspec_verification * v,
                                      const pyspec_token * q_tokens, const double * q, const int32_t * q_counts,
                                      pyspec_token * out, int32_t * n_out, int32_t * n_accepted, int32_t * n_coins) {
    return guarded([&] {
        need_results(sampler, out, n_out, n_accepted);
        need(n_coins, "n_coins");
        const Verification verification = from_c(v);
        if (verification.n_draft > 0) need(q_counts, "q_counts");
        std::vector<DraftLaw> laws;
        int64_t at = 0;
        for (int32_t i = 0; i < verification.n_draft; ++i) {
            const int32_t n = q_counts[i];
            if (n < 0) throw Error(PYSPEC_OPTION, format("draft law %d has %d entries; allowed: 0 or more", i, n));
            if (n > 0) {
                need(q_tokens, "q_tokens");
                need(q, "q");
            }
            laws.push_back(n > 0 ? law(q_tokens + at, q + at, n) : DraftLaw{});
            at += n;
        }
        const RejectionVerdict verdict = accept_rejection(sampler->sampler, verification, laws, out);
        *n_out                         = verdict.n_out;
        *n_accepted                    = verdict.n_accepted;
        *n_coins                       = verdict.n_coins;
    });
}

pyspec_status pyspec_rejection_rule(const pyspec_token * p_tokens, const double * p, int32_t n_p,
                                    const pyspec_token * q_tokens, const double * q, int32_t n_q, pyspec_token drafted,
                                    double * acceptance, double * residual) {
    return guarded([&] {
        need(p_tokens, "p_tokens");
        need(p, "p");
        need(q_tokens, "q_tokens");
        need(q, "q");
        need(acceptance, "acceptance");
        need(residual, "residual");
        if (n_p < 1 || n_q < 1) throw Error(PYSPEC_OPTION, format("n_p is %d, n_q %d; allowed: 1 or more", n_p, n_q));
        const std::vector<WeightedToken> target = law(p_tokens, p, n_p);
        const DraftLaw draft                    = law(q_tokens, q, n_q);
        const std::vector<WeightedToken> left   = residual_law(target, draft);
        for (size_t i = 0; i < left.size(); ++i) residual[i] = left[i].p;
        *acceptance = acceptance_probability(target, draft, drafted);
    });
}

pyspec_status pyspec_accept_replay(pyspec_sampler * sampler, const pyspec_verification * v, pyspec_token * out,
                                   int32_t * n_out, int32_t * n_accepted) {
    return guarded([&] {
        need_results(sampler, out, n_out, n_accepted);
        const Verdict verdict = accept_replay(sampler->sampler, from_c(v), out);
        *n_out                = verdict.n_out;
        *n_accepted           = verdict.n_accepted;
    });
}

pyspec_status pyspec_accept_synthetic(pyspec_sampler * sampler, const pyspec_verification * v, const double * rates,
                                      int32_t n_rates, pyspec_token * out, int32_t * n_out, int32_t * n_accepted) {
    return guarded([&] {
        need_results(sampler, out, n_out, n_accepted);
        if (n_rates < 0) throw Error(PYSPEC_OPTION, format("n_rates is %d; allowed: 0 or more", n_rates));
        if (n_rates > 0) need(rates, "rates");
        const Verdict verdict = accept_synthetic(sampler->sampler, from_c(v), rates, n_rates, out);
        *n_out                = verdict.n_out;
        *n_accepted           = verdict.n_accepted;
    });
}

pyspec_status pyspec_synthetic_rates(double length, int32_t n, double * rates) {
    return guarded([&] {
        need(rates, "rates");
        synthetic_rates(length, n, rates);
    });
}
