#include "sampling/sampler_params.h"

#include "support/error.h"

#include <cmath>
#include <limits>

namespace pyspec {
namespace {

constexpr float max_float = std::numeric_limits<float>::max();

[[noreturn]] void refuse(const char * field, double found, const char * allowed) {
    throw Error(PYSPEC_OPTION, format("%s is %g; allowed: %s", field, found, allowed));
}

void need_finite(const char * field, float found, const char * allowed) {
    if (!std::isfinite(found)) refuse(field, found, allowed);
}

void need_between(const char * field, float found, float low, float high, const char * allowed) {
    if (!(found >= low && found <= high)) refuse(field, found, allowed); // written so that NaN fails
}

void validate_mirostat(const SamplerParams & params) {
    if (params.mirostat != 0 && params.mirostat != 2) refuse("mirostat", params.mirostat, "0 (off) or 2");
    need_between("mirostat_tau", params.mirostat_tau, 0.0f, max_float, "a finite number, 0 or more");
    need_between("mirostat_eta", params.mirostat_eta, 0.0f, max_float, "a finite number, 0 or more");
    if (params.mirostat == 0) return;
    // Mirostat cuts the candidates by itself. A filter at its default is taken for "not asked for".
    const SamplerParams d;
    const auto exclude = [](const char * field, float found, bool is_off) {
        if (is_off) return;
        throw Error(PYSPEC_OPTION,
                    format("%s is %g, but mirostat replaces this filter; leave it at its default or turn "
                           "it off, or set mirostat to 0",
                           field, static_cast<double>(found)));
    };
    exclude("top_k", static_cast<float>(params.top_k), params.top_k <= 0 || params.top_k == d.top_k);
    exclude("top_p", params.top_p, params.top_p >= 1.0f || params.top_p == d.top_p);
    exclude("min_p", params.min_p, params.min_p <= 0.0f || params.min_p == d.min_p);
    exclude("typical_p", params.typical_p, params.typical_p >= 1.0f);
    exclude("top_n_sigma", params.top_n_sigma, params.top_n_sigma <= 0.0f);
    exclude("xtc_probability", params.xtc_probability, params.xtc_probability <= 0.0f || params.xtc_threshold > 0.5f);
    exclude("dynatemp_range", params.dynatemp_range, params.dynatemp_range <= 0.0f);
    exclude("min_keep", static_cast<float>(params.min_keep), params.min_keep <= 1);
}

void validate_dry(const SamplerParams & params, int32_t n_vocab) {
    need_between("dry_multiplier", params.dry_multiplier, 0.0f, max_float, "a finite number, 0 (off) or more");
    need_between("dry_base", params.dry_base, 1.0f, max_float, "a finite number, 1 or more");
    if (params.dry_allowed_length < 0) refuse("dry_allowed_length", params.dry_allowed_length, "0 or more");
    if (params.dry_penalty_last_n < -1) {
        refuse("dry_penalty_last_n", params.dry_penalty_last_n, "-1 (the whole history), 0 (off) or more");
    }
    const int32_t known = params.dry_breakers.n_vocab();
    if (known != 0 && known != n_vocab) {
        throw Error(PYSPEC_OPTION,
                    format("the DRY breakers were made for %d tokens, the sampler for %d", known, n_vocab));
    }
}

} // namespace

void validate(const SamplerParams & params, int32_t n_vocab) {
    if (n_vocab < 1) refuse("n_vocab", n_vocab, "1 or more");
    if (!std::isfinite(params.temperature)) {
        refuse("temperature", params.temperature, "a finite number (0 or less takes the largest logit)");
    }
    // Written so that NaN fails.
    if (!(params.top_p >= 0.0f)) refuse("top_p", params.top_p, "0 or more (1 or more is off)");
    if (!(params.min_p <= 1.0f)) refuse("min_p", params.min_p, "at most 1 (0 or less is off)");
    if (!(params.typical_p >= 0.0f)) refuse("typical_p", params.typical_p, "0 or more (1 or more is off)");
    if (!(params.repeat_penalty > 0.0f) || std::isinf(params.repeat_penalty)) {
        refuse("repeat_penalty", params.repeat_penalty, "a finite number above 0 (1 is off)");
    }
    if (!std::isfinite(params.frequency_penalty)) {
        refuse("frequency_penalty", params.frequency_penalty, "a finite number (0 is off)");
    }
    if (!std::isfinite(params.presence_penalty)) {
        refuse("presence_penalty", params.presence_penalty, "a finite number (0 is off)");
    }
    if (params.penalty_last_n < -1) {
        refuse("penalty_last_n", params.penalty_last_n, "-1 (the whole history), 0 (off) or more");
    }
    if (params.min_keep < 0) refuse("min_keep", params.min_keep, "0 or more");
    need_finite("top_n_sigma", params.top_n_sigma, "a finite number (0 or less is off)");
    need_between("xtc_probability", params.xtc_probability, 0.0f, 1.0f, "0 (off) to 1");
    need_between("xtc_threshold", params.xtc_threshold, 0.0f, max_float,
                 "a finite number, 0 or more (above 0.5 is off)");
    need_between("dynatemp_range", params.dynatemp_range, 0.0f, max_float, "a finite number, 0 (off) or more");
    need_between("dynatemp_exponent", params.dynatemp_exponent, 0.0f, max_float, "a finite number, 0 or more");
    validate_mirostat(params);
    validate_dry(params, n_vocab);
    for (const LogitBias & bias : params.logit_bias) {
        if (bias.token < 0 || bias.token >= n_vocab) {
            throw Error(PYSPEC_OPTION, format("logit_bias names token %d; allowed: 0 to %d", bias.token, n_vocab - 1));
        }
        if (std::isnan(bias.value) || bias.value == std::numeric_limits<float>::infinity()) {
            throw Error(PYSPEC_OPTION, format("logit_bias of token %d is %g; allowed: a finite number or -infinity",
                                              bias.token, static_cast<double>(bias.value)));
        }
    }
}

} // namespace pyspec
