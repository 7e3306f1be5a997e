// The part of Sampler that makes a drafter's choices.
#include "sampling/gumbel_max.h"
#include "sampling/sampler.h"
#include "support/error.h"

#include <algorithm>
#include <cmath>

namespace pyspec {
namespace {

// 1 / sum of exp(score - best) over the listed scores: the share of the best one.
double share_of_best(const std::vector<double> & scores, double best) {
    double sum = 0.0;
    for (double score : scores) sum += std::exp(score - best);
    return 1.0 / sum;
}

} // namespace

Sampler Sampler::for_drafting(double scale, uint64_t draft_seed) const {
    if (!(scale > 0.0) || !std::isfinite(scale)) {
        throw Error(PYSPEC_OPTION, format("scale is %g; allowed: a finite number above 0", scale));
    }
    Sampler copy(*this);
    copy.scale_        = scale;
    copy.draft_seed_   = draft_seed;
    copy.for_drafting_ = true;
    return copy;
}

void Sampler::follow(const Sampler & target) {
    if (n_vocab_ != target.n_vocab_ || params_ != target.params_) {
        throw Error(PYSPEC_OPTION, "follow needs a sampler with the same settings and vocabulary size");
    }
    const size_t common = history_.common_prefix(target.history_);
    const size_t undone = history_.size() - common;
    const size_t taken  = target.history_.size() - common;
    if (params_.has_penalties()) counts_.reserve_more(undone + taken + 2);
    reserve(static_cast<int32_t>(taken));
    rollback(static_cast<int32_t>(undone));
    // Nothing below can fail: there is room.
    for (size_t i = common; i < target.history_.size(); ++i) {
        const SamplerHistory::Entry & entry = target.history_[i];
        const bool has_later                = params_.has_mirostat() && i + 1 < target.history_.size();
        push(entry.token, entry.prompt, has_later ? target.earlier_mus_[i + 1] : target.mu_);
    }
    mu_ = target.mu_; // also when nothing was taken
}

DraftChoice Sampler::draft(const LogitRow & raw, int32_t n_best) const {
    if (n_best < 1) throw Error(PYSPEC_OPTION, format("n_best is %d; allowed: 1 or more", n_best));
    const LogitRow row   = adjusted(raw);
    CandidateList & list = scratch_.list;
    std::vector<double> scores;
    if (params_.temperature <= 0.0f) {
        std::vector<ScoredToken> best;
        top_k_of_row(row, n_best, best);
        for (const ScoredToken & t : best) scores.push_back(t.logit);
        return {best[0].token, static_cast<float>(share_of_best(scores, best[0].logit))};
    }
    const double temperature = filter(row) * scale_;
    const Noise noise        = own_noise();
    const int32_t token      = gumbel_max(list, temperature, noise);
    sort_prefix(list, static_cast<size_t>(n_best));
    const auto score_of = [&](const Candidate & c) { return c.logit + temperature * noise.gumbel(c.token); };
    double best         = 0.0;
    bool listed         = false;
    for (size_t i = 0; i < list.items.size(); ++i) {
        const Candidate & c = list.items[i];
        if (i >= static_cast<size_t>(n_best) && (listed || c.token != token)) continue;
        scores.push_back(score_of(c));
        if (c.token == token) {
            best   = scores.back();
            listed = true;
        }
    }
    return {token, static_cast<float>(share_of_best(scores, best))};
}

int32_t Sampler::draw_draft(const LogitRow & raw, std::vector<WeightedToken> & law) const {
    distribution(raw, law);
    if (params_.temperature <= 0.0f) return law[0].token;
    // A key of its own too: a drafter whose seed is chosen apart from the target's must not meet the target's stream.
    const Noise own{draft_seed_ ^ 0x85EBCA6BC2B2AE35u, static_cast<uint64_t>(index_), Purpose::draft};
    return gumbel_max(law, own);
}

} // namespace pyspec
