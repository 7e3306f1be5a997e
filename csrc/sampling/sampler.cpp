#include "sampling/sampler.h"

#include "sampling/philox.h"
#include "sampling/scan.h"
#include "support/error.h"

#include <algorithm>
#include <limits>
#include <utility>

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

// Gumbel-max over the list at a temperature. Independent of the order of the list; equal scores go to the lowest id.
int32_t draw(const CandidateList & list, double temperature, uint64_t seed, uint64_t index) {
    // Scores are log p up to a constant. Taking the maximum off first keeps them small, so that noise still decides
    // between equal logits at a temperature close to 0.
    const double max  = largest_logit(list);
    int32_t best      = -1;
    double best_score = -std::numeric_limits<double>::infinity();
    for (const Candidate & c : list.items) {
        const double quiet = (static_cast<double>(c.logit) - max) / temperature;
        const double u     = uniform_open(seed, index, static_cast<uint32_t>(c.token), Purpose::target);
        if (best >= 0 && !could_win(best_score - quiet, u)) continue;
        const double score = quiet + gumbel_from_uniform(u);
        if (best < 0 || score > best_score || (score == best_score && c.token < best)) {
            best       = c.token;
            best_score = score;
        }
    }
    return best;
}

} // namespace

Sampler::Sampler(SamplerParams params, int32_t n_vocab) : params_(std::move(params)), n_vocab_(n_vocab) {
    validate(params_, n_vocab_);
}

const float * Sampler::adjusted(const float * logits) const {
    if (params_.logit_bias.empty() && counts_.entries().empty()) return logits;
    std::vector<float> & row = scratch_.logits;
    row.assign(logits, logits + n_vocab_);
    for (const LogitBias & bias : params_.logit_bias) row[static_cast<size_t>(bias.token)] += bias.value;
    for (const PenaltyCounts::Entry & entry : counts_.entries()) {
        float & logit = row[static_cast<size_t>(entry.token)];
        logit =
            penalised(logit, entry.count, params_.repeat_penalty, params_.frequency_penalty, params_.presence_penalty);
    }
    return row.data();
}

void Sampler::filter(const float * adjusted_logits, const float * maxima) const {
    CandidateList & list = scratch_.list;
    gather_candidates(adjusted_logits, n_vocab_, params_.top_k, list, maxima);
    filter_top_k(list, params_.top_k);
    filter_typical(list, params_.typical_p);
    filter_top_p(list, params_.top_p);
    filter_min_p(list, params_.min_p);
}

int32_t Sampler::sample(const float * logits, const float * maxima) const {
    const float * row = adjusted(logits);
    if (row != logits) maxima = nullptr;
    if (params_.temperature <= 0.0f) return arg_max(row, n_vocab_, maxima);
    filter(row, maxima);
    return draw(scratch_.list, params_.temperature, params_.seed, static_cast<uint64_t>(index_));
}

int32_t Sampler::candidates(const float * logits, int32_t * tokens, float * probabilities, int32_t cap) const {
    if (cap < 0) throw Error(PYSPEC_OPTION, format("cap is %d; allowed: 0 or more", cap));
    const float * row    = adjusted(logits);
    CandidateList & list = scratch_.list;
    if (params_.temperature <= 0.0f) {
        const int32_t token = arg_max(row, n_vocab_);
        list.items.assign(1, {token, row[token], 1.0});
        list.n_sorted = 1;
    } else {
        filter(row, nullptr);
        softmax(list, params_.temperature); // before sorting: the order of the sum must not depend on cap
        sort_prefix(list, static_cast<size_t>(cap));
    }
    const size_t shown = std::min(static_cast<size_t>(cap), list.items.size());
    for (size_t i = 0; i < shown; ++i) {
        if (tokens) tokens[i] = list.items[i].token;
        if (probabilities) probabilities[i] = static_cast<float>(list.items[i].p);
    }
    return static_cast<int32_t>(list.items.size());
}

void Sampler::advance(int32_t token, bool prompt) {
    if (token < 0 || token >= n_vocab_) {
        throw Error(PYSPEC_OPTION, format("token is %d; allowed: 0 to %d", token, n_vocab_ - 1));
    }
    if (params_.has_penalties()) counts_.reserve_more(1);
    history_.push_back({token, prompt});
    // Nothing below can fail.
    if (!prompt) ++index_;
    if (!params_.has_penalties()) return;
    const size_t size = history_.size();
    counts_.add(token);
    if (window_is_full(size - 1))
        counts_.remove(history_[size - 1 - static_cast<size_t>(params_.penalty_last_n)].token);
}

void Sampler::reserve(int32_t n) {
    if (n < 0) throw Error(PYSPEC_OPTION, format("reserve of %d tokens; allowed: 0 or more", n));
    const size_t more = static_cast<size_t>(n);
    if (history_.capacity() - history_.size() < more) { // at least doubled, or many small reserves would be quadratic
        history_.reserve(std::max(2 * history_.capacity(), history_.size() + more));
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
        const Advance last = history_.back();
        history_.pop_back();
        if (!last.prompt) --index_;
        if (!params_.has_penalties()) continue;
        const size_t size = history_.size();
        if (window_is_full(size)) counts_.add(history_[size - static_cast<size_t>(params_.penalty_last_n)].token);
        counts_.remove(last.token);
    }
}

void Sampler::restore(const Sampler & from) {
    if (n_vocab_ != from.n_vocab_ || params_ != from.params_) {
        throw Error(PYSPEC_OPTION, "restore needs a sampler with the same settings and vocabulary size");
    }
    Sampler copy(from);
    std::swap(history_, copy.history_);
    std::swap(counts_, copy.counts_);
    std::swap(index_, copy.index_);
}

void Sampler::reset() noexcept {
    history_.clear();
    counts_.clear();
    index_ = 0;
}

} // namespace pyspec
