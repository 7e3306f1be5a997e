// Settings of a sampler. Meaning, defaults and "off" values are those of pyspec_sampler_params in pyspec_sampling.h.
#pragma once

#include "sampling/dry.h"

#include <cstdint>
#include <vector>

namespace pyspec {

struct LogitBias {
    int32_t token;
    float value; // added to the logit; -infinity forbids the token
    bool operator==(const LogitBias &) const = default;
};

struct SamplerParams {
    float temperature       = 0.8f;
    int32_t top_k           = 40;
    float top_p             = 0.95f;
    float min_p             = 0.05f;
    float typical_p         = 1.0f;
    float repeat_penalty    = 1.0f;
    float frequency_penalty = 0.0f;
    float presence_penalty  = 0.0f;
    int32_t penalty_last_n  = 64;
    uint64_t seed           = 0;
    std::vector<LogitBias> logit_bias; // values of a token named twice add up

    int32_t min_keep           = 0;
    float top_n_sigma          = -1.0f;
    float xtc_probability      = 0.0f;
    float xtc_threshold        = 0.1f;
    float dynatemp_range       = 0.0f;
    float dynatemp_exponent    = 1.0f;
    int32_t mirostat           = 0;
    float mirostat_tau         = 5.0f;
    float mirostat_eta         = 0.1f;
    float dry_multiplier       = 0.0f;
    float dry_base             = 1.75f;
    int32_t dry_allowed_length = 2;
    int32_t dry_penalty_last_n = 64;
    DryBreakers dry_breakers;

    bool operator==(const SamplerParams &) const = default;

    bool has_penalties() const noexcept {
        return penalty_last_n != 0 && (repeat_penalty != 1.0f || frequency_penalty != 0.0f || presence_penalty != 0.0f);
    }
    bool has_dry() const noexcept { return dry_multiplier > 0.0f && dry_penalty_last_n != 0; }
    // Mirostat has no meaning when the largest logit is taken.
    bool has_mirostat() const noexcept { return mirostat == 2 && temperature > 0.0f; }
};

// Errors: OPTION naming the field, the value found and what is allowed, or two fields that exclude each other.
void validate(const SamplerParams & params, int32_t n_vocab);

} // namespace pyspec
