// The sampler: settings, the history that penalties look at, and the logical index of the next emitted token.
//
// Choosing (sample) and committing (advance) are separate: sample changes nothing, so rows can be looked at and thrown
// away. The noise of a choice is keyed by (seed, logical index, token id), never by how often sample was called; the
// same logits at the same index give the same token in plain and in speculative decoding.
//
// Copying gives an independent sampler in the same state. One thread at a time, const functions included: they share
// work space.
#pragma once

#include "sampling/filters.h"
#include "sampling/penalties.h"
#include "sampling/sampler_params.h"

#include <cstdint>
#include <vector>

namespace pyspec {

class Sampler {
public:
    // Errors: OPTION, see validate().
    Sampler(SamplerParams params, int32_t n_vocab);

    // The token for the next logical index. logits: {n_vocab}, borrowed for the call. maxima: see scan.h.
    // Errors: OPTION when a logit is NaN or +infinity or every token is forbidden.
    int32_t sample(const float * logits, const float * maxima = nullptr) const;

    // The surviving candidates with their probabilities after temperature, best first (ties: lowest id). Writes at most
    // `cap` entries (either array may be null) and returns how many there are. Temperature <= 0: one entry,
    // probability 1. Errors: as sample; OPTION for cap < 0.
    int32_t candidates(const float * logits, int32_t * tokens, float * probabilities, int32_t cap) const;

    // A token was emitted: the history and the logical index grow. prompt: only the history grows.
    // Errors: OPTION for a token outside the vocabulary. Nothing changes on failure.
    void advance(int32_t token, bool prompt);

    // Make room for n more advances: they and their rollback then cannot run out of memory.
    void reserve(int32_t n);

    // Undo the last n advances exactly. Errors: OPTION unless can_rollback(n). Nothing changes on failure.
    void rollback(int32_t n);
    bool can_rollback(int32_t n) const noexcept { return n >= 0 && n <= n_history(); }

    // Become equal to `from`. Errors: OPTION when the settings differ. Nothing changes on failure.
    void restore(const Sampler & from);

    // Empty history, logical index 0.
    void reset() noexcept;

    int64_t n_history() const noexcept { return static_cast<int64_t>(history_.size()); }
    int64_t index() const noexcept { return index_; }
    int32_t n_vocab() const noexcept { return n_vocab_; }
    const SamplerParams & params() const noexcept { return params_; }

private:
    struct Advance {
        int32_t token;
        bool prompt;
    };
    // Work space keeps its memory between calls and is not part of the state.
    struct Scratch {
        Scratch() = default;
        Scratch(const Scratch &) noexcept {}
        Scratch & operator=(const Scratch &) noexcept { return *this; }
        std::vector<float> logits;
        CandidateList list;
    };

    const float * adjusted(const float * logits) const;                     // after bias and penalties
    void filter(const float * adjusted_logits, const float * maxima) const; // fills scratch_.list
    // How far back penalties look, given `size` advances; the token at that distance leaves the window with the next
    // one.
    bool window_is_full(size_t size) const noexcept {
        return params_.penalty_last_n >= 0 && size >= static_cast<size_t>(params_.penalty_last_n);
    }

    SamplerParams params_;
    int32_t n_vocab_;
    std::vector<Advance> history_;
    PenaltyCounts counts_; // of the last penalty_last_n tokens; stays empty when penalties are off
    int64_t index_ = 0;
    mutable Scratch scratch_;
};

} // namespace pyspec
