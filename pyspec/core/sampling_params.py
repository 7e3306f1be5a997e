"""How tokens are chosen: the settings of a sampler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspec.core.dry import breaker_sequences
from pyspec.errors import OptionError

if TYPE_CHECKING:
    from pyspec.core.dry import PieceSearch

#: Fields that cross into C as they are.
_NUMBERS = (
    "temperature", "top_k", "top_p", "min_p", "typical_p", "repeat_penalty", "frequency_penalty", "presence_penalty",
    "penalty_last_n", "min_keep", "top_n_sigma", "xtc_probability", "xtc_threshold", "dynatemp_range",
    "dynatemp_exponent", "mirostat", "mirostat_tau", "mirostat_eta", "dry_multiplier", "dry_base",
    "dry_allowed_length", "dry_penalty_last_n",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are chosen. Filters apply in this order: mask (grammar), logit_bias, penalties, DRY, top_n_sigma, top_k,
    typical_p, top_p, min_p, XTC, temperature. Each judges what the one before left, renormalised.

    Attributes:
        temperature: 0 = always the most likely token (after mask, bias, penalties and DRY).
        top_k: keep the k best; 0 = off.
        top_p: keep the best tokens up to this probability sum; 1 = off.
        min_p: keep tokens at least this fraction of the best one's probability; 0 = off.
        typical_p: locally typical sampling; 1 = off.
        repeat_penalty, frequency_penalty, presence_penalty: 1, 0, 0 = off.
        penalty_last_n: how many tokens penalties look back; -1 = all, 0 = off.
        seed: key of the noise. None = 0 here; `LLM` draws a fresh one for each call and reports it.
        logit_bias: added to the logits of these tokens; -inf forbids one.
        min_keep: typical_p, top_p, min_p and XTC leave at least this many candidates.
        top_n_sigma: keep logits at most this many standard deviations below the best; 0 or less = off. Looks at the
            whole row.
        xtc_probability, xtc_threshold: with this probability remove, of the tokens at least as probable as the
            threshold, all but the least likely. 0 = off; a threshold above 0.5 removes nothing.
        dynatemp_range, dynatemp_exponent: temperature between temperature - range and temperature + range by
            (entropy / largest entropy) ** exponent; 0 = off.
        mirostat: 2 = mirostat 2.0 in place of the filters, 0 = off. The filters must be off or at their defaults.
        mirostat_tau, mirostat_eta: surprise aimed at in bits, and how fast it gets there.
        dry_multiplier: 0 = off. A token that would continue a repetition of n >= dry_allowed_length tokens loses
            dry_multiplier * dry_base ** (n - dry_allowed_length).
        dry_penalty_last_n: how far back repetitions are sought; -1 = all, 0 = off. Costs time in proportion.
        dry_sequence_breakers: strings, or lists of token ids, that repetitions do not reach across.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    typical_p: float = 1.0
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_last_n: int = 64
    seed: int | None = None
    logit_bias: Mapping[int, float] | None = None
    min_keep: int = 0
    top_n_sigma: float = -1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = 64
    dry_sequence_breakers: Sequence[str | Sequence[int]] = ("\n", ":", '"', "*")

    @property
    def lookback(self) -> int:
        """How many of the last tokens the choice of the next one depends on; -1 = all. A sampler that continues a
        text need be told no more of it than that.
        """
        penalties = (self.repeat_penalty != 1.0, self.frequency_penalty, self.presence_penalty)
        windows = [self.penalty_last_n if any(penalties) else 0]
        windows.append(self.dry_penalty_last_n if self.dry_multiplier else 0)
        return -1 if -1 in windows else max(windows)


def rejection_refusal(params: SamplingParams) -> str | None:
    """Why these settings cannot be sampled by rejection; None if they can."""
    if params.mirostat and params.temperature > 0:
        return (
            "mirostat cannot be combined with acceptance='rejection': its state follows the probability of the token "
            "that plain sampling would draw; use the default acceptance, or set mirostat=0"
        )
    return None


def to_c(ffi: Any, library: Any, params: SamplingParams, search: PieceSearch | None) -> tuple[Any, Any]:
    """The C struct, and what must be kept alive as long as it is used. OptionError for values of the wrong type."""
    c = ffi.new("pyspec_sampler_params *")
    library.pyspec_sampler_params_default(c, ffi.sizeof("pyspec_sampler_params"))
    for name in _NUMBERS:
        try:
            setattr(c, name, getattr(params, name))
        except (TypeError, OverflowError) as error:
            raise OptionError(f"{name} is {getattr(params, name)!r}: {error}") from None
    bias = dict(params.logit_bias or {})
    try:
        c.seed = (params.seed or 0) & 0xFFFFFFFFFFFFFFFF
        keep = [ffi.new("int32_t[]", list(bias)), ffi.new("float[]", list(bias.values()))]
    except (TypeError, OverflowError) as error:
        raise OptionError(f"seed or logit_bias: {error}") from None
    c.n_logit_bias = len(bias)
    c.logit_bias_token, c.logit_bias_value = keep
    if params.dry_multiplier:
        breakers = breaker_sequences(params.dry_sequence_breakers, search)
        try:
            lengths = ffi.new("int32_t[]", [len(breaker) for breaker in breakers])
            tokens = ffi.new("int32_t[]", [token for breaker in breakers for token in breaker])
        except (TypeError, OverflowError) as error:
            raise OptionError(f"dry_sequence_breakers: {error}") from None
        keep += [lengths, tokens]
        c.n_dry_breakers, c.dry_breaker_length, c.dry_breaker_tokens = len(breakers), lengths, tokens
    return c, keep
