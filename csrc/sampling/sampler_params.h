// Settings of a sampler. Meaning, defaults and "off" values are those of pyspec_sampler_params in pyspec.h.
#pragma once

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

    bool operator==(const SamplerParams &) const = default;

    bool has_penalties() const noexcept {
        return penalty_last_n != 0 && (repeat_penalty != 1.0f || frequency_penalty != 0.0f || presence_penalty != 0.0f);
    }
};

// Errors: OPTION naming the field, the value found and what is allowed.
void validate(const SamplerParams & params, int32_t n_vocab);

} // namespace pyspec
