#include "sampling/sampler_params.h"

#include "support/error.h"

#include <cmath>
#include <limits>

namespace pyspec {
namespace {

[[noreturn]] void refuse(const char * field, double found, const char * allowed) {
    throw Error(PYSPEC_OPTION, format("%s is %g; allowed: %s", field, found, allowed));
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
