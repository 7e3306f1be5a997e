#include "sampling/sampler.h"

#include "sampling/gumbel_max.h"
#include "support/error.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pyspec {

Sampler::Sampler(SamplerParams params, int32_t n_vocab) : params_(std::move(params)), n_vocab_(n_vocab) {
    validate(params_, n_vocab_);
    mu_ = first_mu();
}

void Sampler::find_repetitions() const {
    const size_t size = history_.size();
    const size_t window =
        params_.dry_penalty_last_n < 0 ? size : std::min(size, static_cast<size_t>(params_.dry_penalty_last_n));
    scratch_.recent.resize(window);
    for (size_t i = 0; i < window; ++i) scratch_.recent[i] = history_[size - 1 - i].token;
    pyspec::find_repetitions(scratch_.recent.data(), window, params_.dry_breakers, params_.dry_allowed_length,
                             scratch_.matches, scratch_.repetitions);
}

LogitRow Sampler::adjusted(const LogitRow & row) const {
    if (row.n < 1 || row.n > n_vocab_) {
        throw Error(PYSPEC_OPTION, format("the row has %d logits; allowed: 1 to %d", row.n, n_vocab_));
    }
    scratch_.repetitions.clear();
    if (params_.has_dry()) find_repetitions();
    if (params_.logit_bias.empty() && counts_.entries().empty() && scratch_.repetitions.empty()) return row;

    std::vector<float> & logits = scratch_.logits;
    logits.assign(row.logits, row.logits + row.n);
    const auto at = [&](int32_t token) { return token < row.n ? &logits[static_cast<size_t>(token)] : nullptr; };
    for (const LogitBias & bias : params_.logit_bias) {
        if (float * logit = at(bias.token)) *logit += bias.value;
    }
    for (const PenaltyCounts::Entry & entry : counts_.entries()) {
        if (float * logit = at(entry.token)) {
            *logit = penalised(*logit, entry.count, params_.repeat_penalty, params_.frequency_penalty,
                               params_.presence_penalty);
        }
    }
    for (const Repetition & r : scratch_.repetitions) {
        if (float * logit = at(r.token)) {
            *logit =
                dry_penalised(*logit, r.length, params_.dry_multiplier, params_.dry_base, params_.dry_allowed_length);
        }
    }
    return {logits.data(), row.n, nullptr, row.mask};
}

double Sampler::filter(const LogitRow & row) const {
    CandidateList & list     = scratch_.list;
    const SamplerParams & p  = params_;
    const double temperature = p.temperature;
    if (p.has_mirostat()) {
        gather_candidates(row, 0, list);
        filter_mirostat(list, temperature, mu_);
        return temperature;
    }
    const size_t min_keep = static_cast<size_t>(p.min_keep);
    gather_candidates(row, p.top_n_sigma > 0.0f ? 0 : p.top_k, list);
    filter_top_n_sigma(list, p.top_n_sigma);
    filter_top_k(list, p.top_k);
    filter_typical(list, p.typical_p, min_keep);
    filter_top_p(list, p.top_p, min_keep);
    filter_min_p(list, p.min_p, min_keep);
    if (p.xtc_probability > 0.0f && noise(Purpose::xtc).uniform(0) < static_cast<double>(p.xtc_probability)) {
        filter_xtc(list, p.xtc_threshold, min_keep);
    }
    const double chosen = dynamic_temperature(list, temperature, p.dynatemp_range, p.dynatemp_exponent);
    if (chosen > 0.0) return chosen;
    filter_top_k(list, 1);
    return 1.0;
}

double Sampler::surprise_of(int32_t token, double temperature) const {
    CandidateList & list = scratch_.list;
    softmax(list, temperature);
    for (const Candidate & c : list.items) {
        if (c.token == token) return -std::log2(c.p);
    }
    return -1.0;
}

Choice Sampler::choose(const LogitRow & raw) const {
    const LogitRow row = adjusted(raw);
    if (params_.temperature <= 0.0f) return {arg_max(row), 0.0};
    const double temperature = filter(row);
    const int32_t token      = gumbel_max(scratch_.list, temperature * scale_, own_noise());
    return {token, params_.has_mirostat() ? surprise_of(token, temperature) : 0.0};
}

Choice Sampler::as_choice(const LogitRow & raw, int32_t token) const {
    if (token < 0 || token >= n_vocab_) {
        throw Error(PYSPEC_OPTION, format("token is %d; allowed: 0 to %d", token, n_vocab_ - 1));
    }
    if (!params_.has_mirostat()) return {token, 0.0};
    const double temperature = filter(adjusted(raw));
    return {token, surprise_of(token, temperature)};
}

int32_t Sampler::candidates(const LogitRow & raw, int32_t * tokens, float * probabilities, int32_t cap) const {
    if (cap < 0) throw Error(PYSPEC_OPTION, format("cap is %d; allowed: 0 or more", cap));
    const LogitRow row   = adjusted(raw);
    CandidateList & list = scratch_.list;
    if (params_.temperature <= 0.0f) {
        const int32_t token = arg_max(row);
        list.items.assign(1, {token, row.logits[token], 1.0});
        list.n_sorted = 1;
    } else {
        const double temperature = filter(row);
        softmax(list, temperature * scale_); // before sorting: the order of the sum must not depend on cap
        sort_prefix(list, static_cast<size_t>(cap));
    }
    const size_t shown = std::min(static_cast<size_t>(cap), list.items.size());
    for (size_t i = 0; i < shown; ++i) {
        if (tokens) tokens[i] = list.items[i].token;
        if (probabilities) probabilities[i] = static_cast<float>(list.items[i].p);
    }
    return static_cast<int32_t>(list.items.size());
}

void Sampler::distribution(const LogitRow & raw, std::vector<WeightedToken> & out) const {
    const LogitRow row = adjusted(raw);
    if (params_.temperature <= 0.0f) {
        out.assign(1, {arg_max(row), 1.0});
        return;
    }
    const double temperature = filter(row);
    softmax(scratch_.list, temperature * scale_);
    out.clear();
    for (const Candidate & c : scratch_.list.items) out.push_back({c.token, c.p});
    std::sort(out.begin(), out.end(), [](const auto & a, const auto & b) { return a.token < b.token; });
}

void Sampler::push(int32_t token, bool prompt, double mu) {
    if (params_.has_penalties()) counts_.reserve_more(1);
    if (params_.has_mirostat()) earlier_mus_.push_back(mu_);
    history_.push(token, prompt, mu);
    // Nothing below can fail.
    mu_ = mu;
    if (!prompt) ++index_;
    if (!params_.has_penalties()) return;
    const size_t size = history_.size();
    counts_.add(token);
    if (window_is_full(size - 1)) {
        counts_.remove(history_[size - 1 - static_cast<size_t>(params_.penalty_last_n)].token);
    }
}

void Sampler::advance(int32_t token, bool prompt) {
    if (token < 0 || token >= n_vocab_) {
        throw Error(PYSPEC_OPTION, format("token is %d; allowed: 0 to %d", token, n_vocab_ - 1));
    }
    reserve(1);
    push(token, prompt, mu_);
}

void Sampler::advance(const Choice & choice) {
    reserve(1);
    double mu = mu_;
    if (params_.has_mirostat() && choice.surprise >= 0.0) {
        mu -= params_.mirostat_eta * (choice.surprise - params_.mirostat_tau);
    }
    push(choice.token, false, mu);
}

void Sampler::reserve(int32_t n) {
    if (n < 0) throw Error(PYSPEC_OPTION, format("reserve of %d tokens; allowed: 0 or more", n));
    const size_t more = static_cast<size_t>(n);
    history_.reserve_more(more);
    if (params_.has_mirostat() && earlier_mus_.capacity() - earlier_mus_.size() < more) {
        earlier_mus_.reserve(std::max(2 * earlier_mus_.size(), earlier_mus_.size() + more));
    }
    // n entries may come by advancing and rollback wants room for n + 1 more.
    if (params_.has_penalties()) counts_.reserve_more(2 * more + 1);
}

void Sampler::rollback(int32_t n) {
    if (!can_rollback(n)) {
        throw Error(PYSPEC_OPTION,
                    format("rollback of %d tokens; allowed: 0 to %lld", n, static_cast<long long>(n_history())));
    }
    if (params_.has_penalties() && params_.penalty_last_n > 0) {
        counts_.reserve_more(static_cast<size_t>(std::min(n, params_.penalty_last_n)) + 1);
    }
    // Nothing below can fail.
    for (int32_t i = 0; i < n; ++i) {
        const SamplerHistory::Entry last = history_.back();
        history_.pop();
        if (!last.prompt) --index_;
        if (params_.has_mirostat()) {
            mu_ = earlier_mus_.back();
            earlier_mus_.pop_back();
        }
        if (!params_.has_penalties()) continue;
        const size_t size = history_.size();
        if (window_is_full(size)) counts_.add(history_[size - static_cast<size_t>(params_.penalty_last_n)].token);
        counts_.remove(last.token);
    }
}

void Sampler::restore(const Sampler & from) {
    if (n_vocab_ != from.n_vocab_ || params_ != from.params_ || scale_ != from.scale_) {
        throw Error(PYSPEC_OPTION, "restore needs a sampler with the same settings and vocabulary size");
    }
    Sampler copy(from);
    std::swap(history_, copy.history_);
    std::swap(counts_, copy.counts_);
    std::swap(index_, copy.index_);
    std::swap(mu_, copy.mu_);
    std::swap(earlier_mus_, copy.earlier_mus_);
}

void Sampler::reset() noexcept {
    history_.clear();
    counts_.clear();
    index_ = 0;
    mu_    = first_mu();
    earlier_mus_.clear();
}

} // namespace pyspec
