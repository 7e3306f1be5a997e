/* pyspec_sampling.h: the sampler, and the rules by which drafted tokens are accepted. Conventions: see pyspec.h. */
#ifndef PYSPEC_SAMPLING_H
#define PYSPEC_SAMPLING_H

#include "pyspec_core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------------ sampler
 */

/* Order of the filters: mask, logit bias, penalties, DRY, top-n-sigma, top-k, typical, top-p, min-p, XTC, temperature
 * (dynamic or not); then the choice. With mirostat: mask, logit bias, penalties, DRY, temperature, mirostat's cut.
 * temperature <= 0 takes the largest logit after mask, bias, penalties and DRY. temperature > 0 draws by Gumbel-max
 * over the surviving candidates: argmax(log p + g), where g is keyed noise of (seed, logical index, token id): the
 * choice does not depend on how many rows were sampled, on drafts or on time. XTC's coin is keyed likewise. Ties always
 * go to the lowest id.
 *
 * Masks: one bit for each token, bit t % 32 of word t / 32, set = allowed; {(n_vocab + 31) / 32} words for a row. NULL
 * allows all. What a mask forbids counts as -infinity before everything else, whatever stands in the row. */
typedef struct pyspec_sampler pyspec_sampler;

typedef struct pyspec_sampler_params {
    size_t struct_size;
    float temperature;       /* default 0.8 */
    int32_t top_k;           /* default 40; <= 0 = off */
    float top_p;             /* default 0.95; >= 1 = off */
    float min_p;             /* default 0.05; <= 0 = off */
    float typical_p;         /* default 1; >= 1 = off */
    float repeat_penalty;    /* default 1 = off */
    float frequency_penalty; /* default 0 = off */
    float presence_penalty;  /* default 0 = off */
    int32_t penalty_last_n;  /* default 64; 0 = penalties off, -1 = the whole history */
    uint64_t seed;
    int32_t n_logit_bias;
    const pyspec_token * logit_bias_token; /* n_logit_bias ids; copied */
    const float * logit_bias_value;        /* added to the logit; -infinity forbids the token */
    int32_t min_keep;      /* default 0; typical, top-p, min-p and XTC leave at least as many candidates */
    float top_n_sigma;     /* default -1; <= 0 = off. Keeps logits at most so many standard deviations below the best */
    float xtc_probability; /* default 0 = off; chance of removing the top choices but the least likely of them */
    float xtc_threshold;   /* default 0.1; what counts as a top choice; above 0.5 = off */
    float dynatemp_range;  /* default 0 = off; the temperature moves by so much with the entropy */
    float dynatemp_exponent; /* default 1 */
    int32_t mirostat;        /* default 0 = off; 2 = mirostat 2.0 instead of the filters. They must be off or at their
                                defaults, which then count as off */
    float mirostat_tau;      /* default 5; the surprise aimed at, in bits */
    float mirostat_eta;      /* default 0.1; how fast it gets there */
    float dry_multiplier;    /* default 0 = off */
    float dry_base;          /* default 1.75 */
    int32_t dry_allowed_length; /* default 2; repetitions of fewer tokens cost nothing */
    int32_t dry_penalty_last_n; /* default 64; how far back repetitions are sought, 0 = off, -1 = the whole history */
    int32_t n_dry_breakers;     /* token sequences that repetitions do not reach across; default none */
    const int32_t * dry_breaker_length;      /* n_dry_breakers lengths, >= 1; copied */
    const pyspec_token * dry_breaker_tokens; /* the sequences, one after the other; copied */
} pyspec_sampler_params;

PYSPEC_API void pyspec_sampler_params_default(pyspec_sampler_params * params, size_t struct_size);

/* OPTION names the field that is out of range (NaN, penalty_last_n < -1, bias id outside 0..n_vocab), or the filter
 * that mirostat excludes. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_new(const pyspec_sampler_params * params, int32_t n_vocab,
                                                            pyspec_sampler ** sampler);
PYSPEC_API void pyspec_sampler_free(pyspec_sampler * sampler);
/* Full copy: settings, history, logical index, mirostat's state. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_clone(const pyspec_sampler * sampler, pyspec_sampler ** copy);

/* Choose a token for the next logical index; changes nothing in the sampler. logits: {n_vocab}. OPTION when every
 * candidate is forbidden or a logit is NaN or +infinity. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_sample(const pyspec_sampler * sampler, const float * logits,
                                                               const uint32_t * mask, pyspec_token * token);
/* Tell the sampler that a token was emitted: history grows, logical index + 1. prompt = true: only the history grows
 * (the token belongs to the prompt). OPTION with mirostat when the token is not of the prompt: its state follows the
 * row too. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_advance(pyspec_sampler * sampler, pyspec_token token,
                                                                bool prompt);
/* The same for a token that was emitted from this row; works with every setting. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_advance_from(pyspec_sampler * sampler, const float * logits,
                                                                     const uint32_t * mask, pyspec_token token);
/* Undo the last n advances, prompt or not. OPTION (and no change) when fewer are known. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_rollback(pyspec_sampler * sampler, int32_t n);
PYSPEC_API bool pyspec_sampler_can_rollback(const pyspec_sampler * sampler, int32_t n);
/* Make this sampler equal to another of the same settings (taken earlier by clone). */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_restore(pyspec_sampler * sampler, const pyspec_sampler * from);
/* Empty history, logical index 0. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_reset(pyspec_sampler * sampler);
/* Advances so far (prompt included) and the logical index of the next emitted token. */
PYSPEC_API int64_t pyspec_sampler_n_history(const pyspec_sampler * sampler);
PYSPEC_API int64_t pyspec_sampler_index(const pyspec_sampler * sampler);

/* The candidates that survive the filters for these logits, highest probability first (ties: lowest id), with their
 * probabilities. Writes at most cap entries, *n is the full number. With temperature <= 0: one entry of probability 1.
 */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_candidates(const pyspec_sampler * sampler, const float * logits,
                                                                   const uint32_t * mask, pyspec_token * tokens,
                                                                   float * probabilities, int32_t cap, int32_t * n);

/* Drafters -------------------------------------------------------------------------------------------------------- */

/* A sampler for a drafter's choices, in the same state: same settings, same noise, temperature times scale (> 0; about
 * 0.8 is good). draft_seed keys pyspec_sampler_draw_draft and nothing else. Mirostat's state stands still in it between
 * calls of follow. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_for_drafting(const pyspec_sampler * target, double scale,
                                                                     uint64_t draft_seed, pyspec_sampler ** sampler);
/* Take over history, logical index and mirostat's state of the target's sampler. Costs time only for the tokens in
 * which the two histories differ. OPTION unless both have the same settings (the scale of drafting apart). */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_follow(pyspec_sampler * sampler, const pyspec_sampler * target);
/* The draft model's guess at what the target chooses for the next logical index: the same draw, with the target's own
 * noise, on the draft's row. Changes nothing. logits: {n_row} of the draft model, whose vocabulary may be shorter or
 * longer than the target's; ids from n_allowed or from the target's n_vocab on are never chosen. maxima: of the same
 * row, or NULL. mask: of the target's vocabulary, or NULL. *probability estimates that the target agrees: the share of
 * the guess in a softmax over the n_best best candidates' logit + temperature * noise (at temperature <= 0: logit). */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_draft(const pyspec_sampler * sampler, const float * logits,
                                                              const float * maxima, int32_t n_row, int32_t n_allowed,
                                                              const uint32_t * mask, int32_t n_best,
                                                              pyspec_token * token, float * probability);
/* For rejection sampling: an independent draw from the draft's candidates, and the law it was drawn from in ascending
 * id order: *n entries in tokens and probabilities, which have room for cap (OPTION if that is too little; n_row is
 * always enough, so is top_k when it is on). Row arguments as above. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_draw_draft(const pyspec_sampler * sampler, const float * logits,
                                                                   const float * maxima, int32_t n_row,
                                                                   int32_t n_allowed, const uint32_t * mask,
                                                                   pyspec_token * token, pyspec_token * tokens,
                                                                   double * probabilities, int32_t cap, int32_t * n);

/* Log-softmax of raw logits: value of one token and the n_top best (ties: lowest id). logits {n_vocab}. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_logprobs(const float * logits, int32_t n_vocab, pyspec_token token,
                                                         float * logprob, int32_t n_top, pyspec_token * top_tokens,
                                                         float * top_logprobs);

/* Draft-side choice: the largest logit among the first n_allowed ids (ties: lowest id) and its probability among the
 * best n_best logits (softmax over those only), the confidence that p_min is compared with. maxima: of the same row, or
 * NULL (pyspec_logits_maxima). */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_draft_choice(const float * logits, const float * maxima,
                                                             int32_t n_vocab, int32_t n_allowed, int32_t n_best,
                                                             pyspec_token * token, float * probability);

/* --------------------------------------------------------------------------------------------------------- acceptance
 */

/* What an acceptance function works on; everything is borrowed for the call. Row 0 belongs to the token before the
 * draft, row i to draft[i-1]. Rows are taken one after the other while the draft is accepted; it ends after an end
 * token, after n_max tokens, and after the row behind the last draft token. Rows behind that are not looked at. */
typedef struct pyspec_verification {
    const pyspec_model * model;      /* tokens for which pyspec_token_is_eog is true are end tokens; NULL: none */
    const pyspec_token * end_tokens; /* n_end further ones, in any order */
    int32_t n_end;
    int32_t n_draft;
    const pyspec_token * draft; /* n_draft ids */
    const float * rows;         /* {n_vocab, n_draft + 1} contiguous logits */
    const float * maxima;       /* those of row 0 when the rows are a context's (pyspec_logits_maxima), else NULL */
    const uint32_t * masks;     /* {(n_vocab + 31) / 32, n_draft + 1}, a mask for each row, or NULL */
    int32_t n_max;              /* most tokens to emit, >= 1 */
} pyspec_verification;

/* In all of these out has room for n_draft + 1 ids; *n_out >= 1 tokens were emitted, of which the first *n_accepted
 * were accepted from the draft. The sampler has advanced by *n_out. On error it is as before. */

/* Sample-and-match: the sampler chooses the target's own token for each row; the draft is accepted as far as it says
 * the same. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_accept_match(pyspec_sampler * sampler, const pyspec_verification * v,
                                                             pyspec_token * out, int32_t * n_out, int32_t * n_accepted);

/* Rejection sampling; equal to plain sampling in distribution only. The law draft[i] was drawn from has q_counts[i]
 * entries in q_tokens and q, laws one after the other; 0 entries: that place is decided by sample-and-match. *n_coins:
 * acceptance coins that were needed. temperature <= 0: sample-and-match. UNSUPPORTED with mirostat; OPTION for a law
 * that does not add up to 1 or names an id twice. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_accept_rejection(
    pyspec_sampler * sampler, const pyspec_verification * v, const pyspec_token * q_tokens, const double * q,
    const int32_t * q_counts, pyspec_token * out, int32_t * n_out, int32_t * n_accepted, int32_t * n_coins);

/* The rule itself for one place, on plain lists (ascending ids): the probability of accepting `drafted`, and the law of
 * the token after a rejection, n_p values along p_tokens. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_rejection_rule(const pyspec_token * p_tokens, const double * p,
                                                               int32_t n_p, const pyspec_token * q_tokens,
                                                               const double * q, int32_t n_q, pyspec_token drafted,
                                                               double * acceptance, double * residual);

/* After a checkpoint was restored: emits the draft, which was decided in the first attempt, without deciding it again,
 * then one token more. An end token in the draft ends it. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_accept_replay(pyspec_sampler * sampler, const pyspec_verification * v,
                                                              pyspec_token * out, int32_t * n_out,
                                                              int32_t * n_accepted);

/* For benchmarks, the text means nothing: the first i+1 draft tokens are accepted with probability rates[i], whatever
 * the rows say (but never an end token), by coins keyed by seed and logical index; a rejection emits the target's
 * choice. OPTION unless 1 >= rates[0] >= rates[1] ... >= 0 and n_draft <= n_rates. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_accept_synthetic(pyspec_sampler * sampler,
                                                                 const pyspec_verification * v, const double * rates,
                                                                 int32_t n_rates, pyspec_token * out, int32_t * n_out,
                                                                 int32_t * n_accepted);
/* n rates p, p^2, ... that make rounds of n draft tokens emit `length` tokens on average. OPTION unless n >= 1 and
 * length is in 1 .. n + 1. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_synthetic_rates(double length, int32_t n, double * rates);

#ifdef __cplusplus
}
#endif
#endif /* PYSPEC_SAMPLING_H */
