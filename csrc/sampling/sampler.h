// The sampler: settings, the history that penalties look at, the state of mirostat, and the logical index of the next
// emitted token.
//
// Choosing (sample) and committing (advance) are separate: choosing changes nothing, so rows can be looked at and
// thrown away. The noise of a choice is keyed by (seed, logical index, token id), never by how often sample was called;
// the same logits at the same index give the same token in plain and in speculative decoding.
//
// Copying gives an independent sampler in the same state. One thread at a time, const functions included: they share
// work space.
#pragma once

#include "sampling/filters.h"
#include "sampling/history.h"
#include "sampling/logprobs.h"
#include "sampling/penalties.h"
#include "sampling/philox.h"
#include "sampling/sampler_params.h"

#include <cstdint>
#include <vector>

namespace pyspec {

// What was chosen, with all that committing it needs.
struct Choice {
    int32_t token;
    double surprise; // -log2 of its probability among the candidates; only with mirostat, else 0
};

class Sampler {
public:
    // Errors: OPTION, see validate().
    Sampler(SamplerParams params, int32_t n_vocab);

    // The token for the next logical index. The row may be shorter than the vocabulary: ids behind it are not chosen.
    // Errors: OPTION when a logit is NaN or +infinity, every token is forbidden, or the row is longer.
    Choice choose(const LogitRow & row) const;
    int32_t sample(const float * logits, const float * maxima = nullptr, const uint32_t * mask = nullptr) const {
        return choose({logits, n_vocab_, maxima, mask}).token;
    }

    // The surviving candidates with their probabilities after temperature, best first (ties: lowest id). Writes at most
    // `cap` entries (either array may be null) and returns how many there are. Temperature <= 0: one entry,
    // probability 1. Errors: as choose; OPTION for cap < 0.
    int32_t candidates(const LogitRow & row, int32_t * tokens, float * probabilities, int32_t cap) const;
    int32_t candidates(const float * logits, int32_t * tokens, float * probabilities, int32_t cap) const {
        return candidates(LogitRow{logits, n_vocab_}, tokens, probabilities, cap);
    }

    // All of them in ascending id order: exactly the law that choose draws from. Errors: as choose.
    void distribution(const LogitRow & row, std::vector<WeightedToken> & out) const;

    // A token was emitted: the history and the logical index grow. prompt: only the history grows.
    // Mirostat's state follows the choice; after a bare token it stays (prompt, forced text).
    // Errors: OPTION for a token outside the vocabulary. Nothing changes on failure.
    void advance(int32_t token, bool prompt);
    void advance(const Choice & choice);
    // The choice that a token is when it is emitted from this row. A token that could not have been chosen leaves
    // mirostat's state as it is. Errors: as choose; OPTION for a token outside the vocabulary.
    Choice as_choice(const LogitRow & row, int32_t token) const;

    // Make room for n more advances: they and their rollback then cannot run out of memory.
    void reserve(int32_t n);

    // Undo the last n advances exactly. Errors: OPTION unless can_rollback(n). Nothing changes on failure.
    void rollback(int32_t n);
    bool can_rollback(int32_t n) const noexcept { return n >= 0 && n <= n_history(); }

    // Become equal to `from`. Errors: OPTION when the settings differ. Nothing changes on failure.
    void restore(const Sampler & from);

    // Empty history, logical index 0.
    void reset() noexcept;

    // Coupled drafting -----------------------------------------------------------------------------------------------
    // A sampler in the same state that makes a drafter's choices: the same settings and noise, so that it chooses what
    // the target is going to choose where the two models agree; temperature times `scale` (a sharper q is accepted more
    // often). draft_seed keys draw_draft, nothing else. Errors: OPTION unless scale is finite and > 0.
    Sampler for_drafting(double scale, uint64_t draft_seed) const;
    bool is_for_drafting() const noexcept { return for_drafting_; }

    // Take over history, index and mirostat's state of the target's sampler. Takes as long as the part in which they
    // differ. Errors: OPTION when settings (scale apart) or vocabulary differ. Nothing changes on failure.
    void follow(const Sampler & target);

    // What the drafter guesses for the next index, and how likely the target is to agree: the share of the guess in a
    // softmax over the n_best best candidates of logit + temperature * noise. The target takes the largest of the same
    // sum on its own logits, so this is to a coupled draft what the share in the plain softmax is to an arg-max draft;
    // at temperature <= 0 it is just that. n_best >= 1. Errors: as choose.
    DraftChoice draft(const LogitRow & row, int32_t n_best) const;

    // For rejection sampling: an independent draw from the candidates, from a stream of its own, and the law it was
    // drawn from (ascending ids). Errors: as choose.
    int32_t draw_draft(const LogitRow & row, std::vector<WeightedToken> & law) const;

    int64_t n_history() const noexcept { return static_cast<int64_t>(history_.size()); }
    int64_t index() const noexcept { return index_; }
    int32_t n_vocab() const noexcept { return n_vocab_; }
    const SamplerParams & params() const noexcept { return params_; }
    // Noise of the next index for another purpose.
    Noise noise(Purpose purpose) const noexcept { return {params_.seed, static_cast<uint64_t>(index_), purpose}; }

private:
    // Work space keeps its memory between calls and is not part of the state.
    struct Scratch {
        Scratch() = default;
        Scratch(const Scratch &) noexcept {}
        Scratch & operator=(const Scratch &) noexcept { return *this; }
        std::vector<float> logits;
        CandidateList list;
        std::vector<int32_t> recent; // newest first
        std::vector<int32_t> matches;
        std::vector<Repetition> repetitions;
    };

    LogitRow adjusted(const LogitRow & row) const; // after bias, penalties and DRY
    void find_repetitions() const;                 // fills scratch_.repetitions
    // Fills scratch_.list with the survivors of an adjusted row; returns the temperature to draw them at (> 0).
    double filter(const LogitRow & row) const;
    Noise own_noise() const noexcept { return noise(params_.has_mirostat() ? Purpose::mirostat : Purpose::target); }
    double surprise_of(int32_t token, double temperature) const; // in scratch_.list; negative when it is not there
    void push(int32_t token, bool prompt, double mu);
    double first_mu() const noexcept { return params_.has_mirostat() ? 2.0 * params_.mirostat_tau : 0.0; }
    // How far back penalties look, given `size` advances; the token at that distance leaves the window with the next
    // one.
    bool window_is_full(size_t size) const noexcept {
        return params_.penalty_last_n >= 0 && size >= static_cast<size_t>(params_.penalty_last_n);
    }

    SamplerParams params_;
    int32_t n_vocab_;
    double scale_        = 1.0; // of the temperature, see for_drafting
    uint64_t draft_seed_ = 0;
    bool for_drafting_   = false;
    SamplerHistory history_;
    PenaltyCounts counts_; // of the last penalty_last_n tokens; stays empty when penalties are off
    int64_t index_ = 0;
    double mu_;                       // mirostat's largest surprise; 0 without mirostat
    std::vector<double> earlier_mus_; // mu before each advance; stays empty without mirostat
    mutable Scratch scratch_;
};

} // namespace pyspec
