#include "api/handles.h"
#include "sampling/logprobs.h"

#include <algorithm>
#include <utility>
#include <vector>

using namespace pyspec;
using namespace pyspec::api;

namespace {

pyspec_sampler_params default_params() {
    const SamplerParams d;
    pyspec_sampler_params params{};
    params.struct_size       = sizeof params;
    params.temperature       = d.temperature;
    params.top_k             = d.top_k;
    params.top_p             = d.top_p;
    params.min_p             = d.min_p;
    params.typical_p         = d.typical_p;
    params.repeat_penalty    = d.repeat_penalty;
    params.frequency_penalty = d.frequency_penalty;
    params.presence_penalty  = d.presence_penalty;
    params.penalty_last_n    = d.penalty_last_n;
    params.seed              = d.seed;

    params.min_keep           = d.min_keep;
    params.top_n_sigma        = d.top_n_sigma;
    params.xtc_probability    = d.xtc_probability;
    params.xtc_threshold      = d.xtc_threshold;
    params.dynatemp_range     = d.dynatemp_range;
    params.dynatemp_exponent  = d.dynatemp_exponent;
    params.mirostat           = d.mirostat;
    params.mirostat_tau       = d.mirostat_tau;
    params.mirostat_eta       = d.mirostat_eta;
    params.dry_multiplier     = d.dry_multiplier;
    params.dry_base           = d.dry_base;
    params.dry_allowed_length = d.dry_allowed_length;
    params.dry_penalty_last_n = d.dry_penalty_last_n;
    return params;
}

DryBreakers dry_breakers(const pyspec_sampler_params & p, int32_t n_vocab) {
    if (p.n_dry_breakers < 0) {
        throw Error(PYSPEC_OPTION, format("n_dry_breakers is %d, expected 0 or more", p.n_dry_breakers));
    }
    if (p.n_dry_breakers > 0) {
        need(p.dry_breaker_length, "dry_breaker_length");
        need(p.dry_breaker_tokens, "dry_breaker_tokens");
    }
    DryBreakers::Sequences sequences;
    const pyspec_token * tokens = p.dry_breaker_tokens;
    for (int32_t i = 0; i < p.n_dry_breakers; ++i) {
        const int32_t length = p.dry_breaker_length[i];
        if (length < 1)
            throw Error(PYSPEC_OPTION, format("DRY breaker %d has %d tokens, expected 1 or more", i, length));
        sequences.emplace_back(tokens, tokens + length);
        tokens += length;
    }
    return DryBreakers(std::move(sequences), n_vocab);
}

SamplerParams from_c(const pyspec_sampler_params * params, int32_t n_vocab) {
    const pyspec_sampler_params p =
        params == nullptr ? default_params() : read_struct(params, default_params(), "params");
    SamplerParams out;
    out.temperature       = p.temperature;
    out.top_k             = p.top_k;
    out.top_p             = p.top_p;
    out.min_p             = p.min_p;
    out.typical_p         = p.typical_p;
    out.repeat_penalty    = p.repeat_penalty;
    out.frequency_penalty = p.frequency_penalty;
    out.presence_penalty  = p.presence_penalty;
    out.penalty_last_n    = p.penalty_last_n;
    out.seed              = p.seed;

    out.min_keep           = p.min_keep;
    out.top_n_sigma        = p.top_n_sigma;
    out.xtc_probability    = p.xtc_probability;
    out.xtc_threshold      = p.xtc_threshold;
    out.dynatemp_range     = p.dynatemp_range;
    out.dynatemp_exponent  = p.dynatemp_exponent;
    out.mirostat           = p.mirostat;
    out.mirostat_tau       = p.mirostat_tau;
    out.mirostat_eta       = p.mirostat_eta;
    out.dry_multiplier     = p.dry_multiplier;
    out.dry_base           = p.dry_base;
    out.dry_allowed_length = p.dry_allowed_length;
    out.dry_penalty_last_n = p.dry_penalty_last_n;
    out.dry_breakers       = dry_breakers(p, n_vocab);
    if (p.n_logit_bias < 0) {
        throw Error(PYSPEC_OPTION, format("n_logit_bias is %d, expected 0 or more", p.n_logit_bias));
    }
    if (p.n_logit_bias > 0) {
        need(p.logit_bias_token, "logit_bias_token");
        need(p.logit_bias_value, "logit_bias_value");
    }
    for (int32_t i = 0; i < p.n_logit_bias; ++i) {
        out.logit_bias.push_back({p.logit_bias_token[i], p.logit_bias_value[i]});
    }
    return out;
}

// A draft model's row as far as the target knows its ids.
LogitRow draft_row(const Sampler & sampler, const float * logits, const float * maxima, int32_t n_row,
                   int32_t n_allowed, const uint32_t * mask) {
    need(logits, "logits");
    if (n_row < 1) throw Error(PYSPEC_OPTION, format("n_row is %d; allowed: 1 or more", n_row));
    if (n_allowed < 1) throw Error(PYSPEC_OPTION, format("n_allowed is %d; allowed: 1 or more", n_allowed));
    // The maximum of a block that is cut is still an upper bound of what is left of it.
    return {logits, std::min({n_row, n_allowed, sampler.n_vocab()}), maxima, mask};
}

} // namespace

void pyspec_sampler_params_default(pyspec_sampler_params * params, size_t struct_size) {
    if (params != nullptr) {
        write_struct(params, default_params(), struct_size, "params");
    }
}

pyspec_status pyspec_sampler_new(const pyspec_sampler_params * params, int32_t n_vocab, pyspec_sampler ** sampler) {
    return guarded([&] {
        need(sampler, "sampler");
        if (n_vocab < 1) throw Error(PYSPEC_OPTION, format("n_vocab is %d; allowed: 1 or more", n_vocab));
        *sampler = new pyspec_sampler{Sampler(from_c(params, n_vocab), n_vocab)};
    });
}

void pyspec_sampler_free(pyspec_sampler * sampler) {
    delete sampler;
}

pyspec_status pyspec_sampler_clone(const pyspec_sampler * sampler, pyspec_sampler ** copy) {
    return guarded([&] {
        need(sampler, "sampler");
        need(copy, "copy");
        *copy = new pyspec_sampler{sampler->sampler};
    });
}

pyspec_status pyspec_sampler_sample(const pyspec_sampler * sampler, const float * logits, const uint32_t * mask,
                                    pyspec_token * token) {
    return guarded([&] {
        need(sampler, "sampler");
        need(logits, "logits");
        need(token, "token");
        *token = sampler->sampler.sample(logits, nullptr, mask);
    });
}

pyspec_status pyspec_sampler_advance(pyspec_sampler * sampler, pyspec_token token, bool prompt) {
    return guarded([&] {
        need(sampler, "sampler");
        if (!prompt && sampler->sampler.params().has_mirostat() && !sampler->sampler.is_for_drafting()) {
            throw Error(PYSPEC_OPTION, "with mirostat the sampler's state follows the row a token was chosen from: use "
                                       "pyspec_sampler_advance_from");
        }
        sampler->sampler.advance(token, prompt);
    });
}

pyspec_status pyspec_sampler_advance_from(pyspec_sampler * sampler, const float * logits, const uint32_t * mask,
                                          pyspec_token token) {
    return guarded([&] {
        need(sampler, "sampler");
        need(logits, "logits");
        Sampler & s = sampler->sampler;
        s.advance(s.as_choice({logits, s.n_vocab(), nullptr, mask}, token));
    });
}

pyspec_status pyspec_sampler_rollback(pyspec_sampler * sampler, int32_t n) {
    return guarded([&] {
        need(sampler, "sampler");
        sampler->sampler.rollback(n);
    });
}

bool pyspec_sampler_can_rollback(const pyspec_sampler * sampler, int32_t n) {
    return sampler != nullptr && sampler->sampler.can_rollback(n);
}

pyspec_status pyspec_sampler_restore(pyspec_sampler * sampler, const pyspec_sampler * from) {
    return guarded([&] {
        need(sampler, "sampler");
        need(from, "from");
        sampler->sampler.restore(from->sampler);
    });
}

pyspec_status pyspec_sampler_reset(pyspec_sampler * sampler) {
    return guarded([&] {
        need(sampler, "sampler");
        sampler->sampler.reset();
    });
}

int64_t pyspec_sampler_n_history(const pyspec_sampler * sampler) {
    return sampler == nullptr ? 0 : sampler->sampler.n_history();
}

int64_t pyspec_sampler_index(const pyspec_sampler * sampler) {
    return sampler == nullptr ? 0 : sampler->sampler.index();
}

pyspec_status pyspec_sampler_candidates(const pyspec_sampler * sampler, const float * logits, const uint32_t * mask,
                                        pyspec_token * tokens, float * probabilities, int32_t cap, int32_t * n) {
    return guarded([&] {
        need(sampler, "sampler");
        need(logits, "logits");
        need(n, "n");
        const Sampler & s = sampler->sampler;
        *n                = s.candidates({logits, s.n_vocab(), nullptr, mask}, tokens, probabilities, cap);
    });
}

pyspec_status pyspec_sampler_for_drafting(const pyspec_sampler * target, double scale, uint64_t draft_seed,
                                          pyspec_sampler ** sampler) {
    return guarded([&] {
        need(target, "target");
        need(sampler, "sampler");
        *sampler = new pyspec_sampler{target->sampler.for_drafting(scale, draft_seed)};
    });
}

pyspec_status pyspec_sampler_follow(pyspec_sampler * sampler, const pyspec_sampler * target) {
    return guarded([&] {
        need(sampler, "sampler");
        need(target, "target");
        sampler->sampler.follow(target->sampler);
    });
}

pyspec_status pyspec_sampler_draft(const pyspec_sampler * sampler, const float * logits, const float * maxima,
                                   int32_t n_row, int32_t n_allowed, const uint32_t * mask, int32_t n_best,
                                   pyspec_token * token, float * probability) {
    return guarded([&] {
        need(sampler, "sampler");
        need(token, "token");
        need(probability, "probability");
        const LogitRow row       = draft_row(sampler->sampler, logits, maxima, n_row, n_allowed, mask);
        const DraftChoice choice = sampler->sampler.draft(row, n_best);
        *token                   = choice.token;
        *probability             = choice.probability;
    });
}

pyspec_status pyspec_sampler_draw_draft(const pyspec_sampler * sampler, const float * logits, const float * maxima,
                                        int32_t n_row, int32_t n_allowed, const uint32_t * mask, pyspec_token * token,
                                        pyspec_token * tokens, double * probabilities, int32_t cap, int32_t * n) {
    return guarded([&] {
        need(sampler, "sampler");
        need(token, "token");
        need(tokens, "tokens");
        need(probabilities, "probabilities");
        need(n, "n");
        const LogitRow row = draft_row(sampler->sampler, logits, maxima, n_row, n_allowed, mask);
        std::vector<WeightedToken> law;
        const int32_t drawn = sampler->sampler.draw_draft(row, law);
        if (cap < 0 || law.size() > static_cast<size_t>(cap)) {
            throw Error(PYSPEC_OPTION, format("cap is %d, but there are %zu candidates", cap, law.size()));
        }
        for (size_t i = 0; i < law.size(); ++i) {
            tokens[i]        = law[i].token;
            probabilities[i] = law[i].p;
        }
        *n     = static_cast<int32_t>(law.size());
        *token = drawn;
    });
}

pyspec_status pyspec_logprobs(const float * logits, int32_t n_vocab, pyspec_token token, float * logprob, int32_t n_top,
                              pyspec_token * top_tokens, float * top_logprobs) {
    return guarded([&] {
        need(logits, "logits");
        need(logprob, "logprob");
        if (n_top > 0) {
            need(top_tokens, "top_tokens");
            need(top_logprobs, "top_logprobs");
        }
        std::vector<TokenLogprob> top;
        const float value = logprobs(logits, n_vocab, token, n_top, top);
        for (size_t i = 0; i < top.size(); ++i) {
            top_tokens[i]   = top[i].token;
            top_logprobs[i] = top[i].logprob;
        }
        *logprob = value;
    });
}

pyspec_status pyspec_draft_choice(const float * logits, const float * maxima, int32_t n_vocab, int32_t n_allowed,
                                  int32_t n_best, pyspec_token * token, float * probability) {
    return guarded([&] {
        need(logits, "logits");
        need(token, "token");
        need(probability, "probability");
        const DraftChoice choice = draft_choice(logits, maxima, n_vocab, n_allowed, n_best);
        *token                   = choice.token;
        *probability             = choice.probability;
    });
}
