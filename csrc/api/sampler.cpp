#include "api/handles.h"
#include "sampling/accept.h"
#include "sampling/logprobs.h"

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
    return params;
}

SamplerParams from_c(const pyspec_sampler_params * params) {
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

} // namespace

void pyspec_sampler_params_default(pyspec_sampler_params * params, size_t struct_size) {
    if (params != nullptr) {
        write_struct(params, default_params(), struct_size, "params");
    }
}

pyspec_status pyspec_sampler_new(const pyspec_sampler_params * params, int32_t n_vocab, pyspec_sampler ** sampler) {
    return guarded([&] {
        need(sampler, "sampler");
        *sampler = new pyspec_sampler{Sampler(from_c(params), n_vocab)};
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

pyspec_status pyspec_sampler_sample(const pyspec_sampler * sampler, const float * logits, pyspec_token * token) {
    return guarded([&] {
        need(sampler, "sampler");
        need(logits, "logits");
        need(token, "token");
        *token = sampler->sampler.sample(logits);
    });
}

pyspec_status pyspec_sampler_advance(pyspec_sampler * sampler, pyspec_token token, bool prompt) {
    return guarded([&] {
        need(sampler, "sampler");
        sampler->sampler.advance(token, prompt);
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

pyspec_status pyspec_sampler_candidates(const pyspec_sampler * sampler, const float * logits, pyspec_token * tokens,
                                        float * probabilities, int32_t cap, int32_t * n) {
    return guarded([&] {
        need(sampler, "sampler");
        need(logits, "logits");
        need(n, "n");
        *n = sampler->sampler.candidates(logits, tokens, probabilities, cap);
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

pyspec_status pyspec_accept_match(pyspec_sampler * sampler, const pyspec_model * model, const float * rows,
                                  const float * maxima, const pyspec_token * draft, int32_t n_draft, int32_t n_max,
                                  pyspec_token * out, int32_t * n_out, int32_t * n_accepted) {
    return guarded([&] {
        need(sampler, "sampler");
        need(rows, "rows");
        if (n_draft > 0) {
            need(draft, "draft");
        }
        need(out, "out");
        need(n_out, "n_out");
        need(n_accepted, "n_accepted");
        const auto is_end     = [model](int32_t token) { return pyspec_token_is_eog(model, token); };
        const Verdict verdict = accept_match(sampler->sampler, rows, maxima, draft, n_draft, n_max, is_end, out);
        *n_out                = verdict.n_out;
        *n_accepted           = verdict.n_accepted;
    });
}
