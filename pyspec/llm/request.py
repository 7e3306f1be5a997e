"""The options of one generation, checked before anything runs."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspec.core.sampling_params import rejection_refusal
from pyspec.drafters.registry import did_you_mean
from pyspec.errors import OptionError
from pyspec.llm.grammar import requested_grammar
from pyspec.llm.stop import StopStrings, stop_list

if TYPE_CHECKING:
    from pyspec.core.accept import LogitsProcessor
    from pyspec.llm.grammar import Grammar

#: Options that are not sampling parameters.
CALL_OPTIONS = (
    "max_tokens", "stop", "stop_token_ids", "logprobs", "drafters", "parse_special", "grammar", "response_format",
    "grammar_whitespace", "logits_processor", "acceptance", "synthetic_length", "synthetic_rates", "on_full",
    "n_keep", "n_discard", "predicted",
)  # fmt: skip
#: How drafts may be judged.
ACCEPTANCE = ("match", "rejection", "synthetic")

#: Values of the option `on_full`.
ON_FULL = ("stop", "roll", "error")

#: Marks `drafters=` as not given.
UNSET: Any = type("Unset", (), {"__repr__": lambda self: "UNSET"})()


@dataclass(slots=True)
class Request:
    """One generation's options. max_tokens None: until an end token or the end of the context.

    n_logprobs: None (no logprobs), or how many best candidates to list beside each token's own.
    logprobs_sampled: the distribution after the filters instead of the model's own. grammar: what the answer has to
    follow. processors: change each row of logits. acceptance: how drafts are judged; synthetic: its mean length or its
    rates. predicted: text that the answer is expected to resemble; drafters may copy from it.
    on_full: what happens at the end of the context (see context_end). n_keep: tokens of the prompt that rolls keep;
    -1: all of them; None: as few as can be. n_discard: tokens that a roll removes; None: half of the others.
    """

    sampling: Any
    seed: int
    max_tokens: int | None
    stops: StopStrings
    stop_token_ids: frozenset[int]
    n_logprobs: int | None
    logprobs_sampled: bool
    drafters: Any
    parse_special: bool
    predicted: str | None
    grammar: Grammar | None = None
    processors: tuple[LogitsProcessor, ...] = ()
    acceptance: str = "match"
    synthetic_length: float | None = None
    synthetic_rates: tuple[float, ...] | None = None
    on_full: str = "stop"
    n_keep: int | None = None
    n_discard: int | None = None


def sampling_option_names(sampling_params: Callable[..., Any]) -> list[str]:
    """Names of the sampling parameters."""
    return [field.name for field in dataclasses.fields(sampling_params)]  # type: ignore[arg-type]


def parse_request(options: Mapping[str, Any], sampling_params: Callable[..., Any], n_vocab: int) -> Request:
    """Options of `generate` as a Request. OptionError for unknown names (with the known ones) and bad
    values.
    """
    sampling_names = sampling_option_names(sampling_params)
    known = [*CALL_OPTIONS, *sampling_names]
    for name in options:
        if name not in known:
            raise OptionError(
                f"unknown option '{name}'{did_you_mean(name, known)}; known: {', '.join(known)}"
            )
    chosen = {name: options[name] for name in sampling_names if name in options}
    seed = chosen.get("seed")
    if seed is None:
        seed = secrets.randbits(64)
    elif isinstance(seed, bool) or not isinstance(seed, int):
        raise OptionError(f"seed must be a whole number, not {seed!r}")
    chosen["seed"] = seed = seed % 2**64
    n_logprobs, sampled = _logprobs(options.get("logprobs"), n_vocab)
    sampling = sampling_params(**chosen)
    on_full, n_keep, n_discard = _at_the_end(options)
    return Request(
        sampling=sampling,
        seed=seed,
        max_tokens=_max_tokens(options.get("max_tokens")),
        stops=StopStrings(stop_list(options.get("stop"))),
        stop_token_ids=_token_ids(options.get("stop_token_ids") or (), n_vocab),
        n_logprobs=n_logprobs,
        logprobs_sampled=sampled,
        drafters=options.get("drafters", UNSET),
        parse_special=bool(options.get("parse_special", True)),
        predicted=_predicted(options.get("predicted")),
        grammar=requested_grammar(
            options.get("grammar"), options.get("response_format"), options.get("grammar_whitespace")
        ),
        processors=_processors(options.get("logits_processor")),
        **_acceptance(options, sampling),
        on_full=on_full,
        n_keep=n_keep,
        n_discard=n_discard,
    )


def _predicted(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise OptionError(
            f"predicted is text that the answer is expected to resemble, not {type(value).__name__}"
        )
    return value or None


def _processors(value: Any) -> tuple[Any, ...]:
    try:
        found = () if value is None else (value,) if callable(value) else tuple(value)
    except TypeError:
        found = (value,)
    for processor in found:
        if not callable(processor):
            raise OptionError(
                f"logits_processor takes functions (tokens, logits) -> logits, not {type(processor).__name__}"
            )
    return found


def _acceptance(options: Mapping[str, Any], sampling: Any) -> dict[str, Any]:
    """How drafts are judged, with the options that belong to it."""
    rule = options.get("acceptance", "match")
    if rule not in ACCEPTANCE:
        raise OptionError(f"acceptance must be one of {', '.join(map(repr, ACCEPTANCE))}, not {rule!r}")
    if rule == "rejection":
        refusal = rejection_refusal(sampling)
        if refusal is not None:
            raise OptionError(refusal)
    length, rates = options.get("synthetic_length"), options.get("synthetic_rates")
    if rule != "synthetic":
        if length is not None or rates is not None:
            raise OptionError(
                "synthetic_length and synthetic_rates are options of acceptance='synthetic', and acceptance is "
                f"{rule!r}"
            )
        return {"acceptance": rule}
    if (length is None) == (rates is None):
        raise OptionError("acceptance='synthetic' needs either synthetic_length or synthetic_rates")
    if options.get("logits_processor") is not None:
        raise OptionError("logits_processor means nothing with acceptance='synthetic'")
    try:
        length = None if length is None else float(length)
        rates = None if rates is None else tuple(map(float, rates))
    except (TypeError, ValueError):
        raise OptionError(
            f"synthetic_length takes a number and synthetic_rates a list of numbers, not {length!r} and {rates!r}"
        ) from None
    return {"acceptance": rule, "synthetic_length": length, "synthetic_rates": rates}


def _max_tokens(value: Any) -> int | None:
    if value is None or value == -1:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise OptionError(
            f"max_tokens must be a whole number >= 0, or None or -1 for no limit, not {value!r}"
        )
    return value


def _at_the_end(options: Mapping[str, Any]) -> tuple[str, int | None, int | None]:
    on_full = options.get("on_full", "stop")
    if on_full not in ON_FULL:
        raise OptionError(f"on_full must be one of {', '.join(map(repr, ON_FULL))}, not {on_full!r}")
    values = []
    for name, least, what in (
        ("n_keep", -1, "a whole number >= 0, or -1 for the whole prompt"),
        ("n_discard", 1, "a whole number >= 1"),
    ):
        value = options.get(name)
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise OptionError(f"{name} must be {what}, not {value!r}")
            if on_full != "roll":
                raise OptionError(f"{name} is an option of on_full='roll', and on_full is {on_full!r}")
        values.append(value)
    return on_full, values[0], values[1]


def _logprobs(value: Any, n_vocab: int) -> tuple[int | None, bool]:
    if value is None or value is False:
        return None, False
    if value is True:
        return 0, False
    if value == "sampled":
        return 0, True
    if isinstance(value, int) and 0 <= value <= n_vocab:
        return value, False
    raise OptionError(
        f"logprobs must be a whole number from 0 to {n_vocab}, True, False or 'sampled', not {value!r}"
    )


def _token_ids(values: Any, n_vocab: int) -> frozenset[int]:
    try:
        ids = frozenset(values)
    except TypeError:
        raise OptionError(f"stop_token_ids takes token ids, not {values!r}") from None
    for value in ids:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < n_vocab:
            raise OptionError(f"stop_token_ids: {value!r} is not a token id of this model (0..{n_vocab - 1})")
    return ids
