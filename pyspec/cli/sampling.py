"""The sampler's settings as options of the command line. What is not given is not passed: the library's defaults hold.

A verb takes them as `**sampling` and is decorated with `takes_sampling`; the names are those of SamplingParams, which also
checks the ranges.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Optional

import typer

from pyspec.errors import OptionError

SAMPLING, REPETITION = "Sampling", "Repetition"


@dataclass(frozen=True, slots=True)
class Setting:
    """One option. name: that of the field of SamplingParams; the option is --name with dashes."""

    name: str
    kind: Any
    help: str
    panel: str = SAMPLING
    option: str = ""
    metavar: str | None = None

    def parameter(self) -> inspect.Parameter:
        """As a parameter of a verb."""
        flag = self.option or "--" + self.name.replace("_", "-")
        annotation = Annotated[
            Optional[self.kind],  # type: ignore[name-defined]  # noqa: UP045
            typer.Option(flag, metavar=self.metavar, rich_help_panel=self.panel, help=self.help),
        ]
        return inspect.Parameter(
            self.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
        )


#: Beside temperature, top_k, top_p, min_p and seed, which have defaults of their own here.
SETTINGS: tuple[Setting, ...] = (
    Setting("typical_p", float, "Locally typical sampling up to this total; 1 is off."),
    Setting("top_n_sigma", float, "Drop tokens this many standard deviations below the best; 0 is off."),
    Setting("min_keep", int, "Filters leave at least this many tokens.", metavar="N"),
    Setting("xtc_probability", float, "How often XTC removes the top choices; 0 is off."),
    Setting("xtc_threshold", float, "What counts as a top choice for XTC, as a probability."),
    Setting("dynatemp_range", float, "Let the temperature vary this much with the entropy; 0 is off."),
    Setting("dynatemp_exponent", float, "How the entropy maps to that range."),
    Setting("mirostat", int, "2: mirostat 2.0 in place of the filters; 0 is off.", metavar="0|2"),
    Setting("mirostat_tau", float, "Surprise that mirostat aims at, in bits."),
    Setting("mirostat_eta", float, "How fast mirostat gets there."),
    Setting(
        "logit_bias",
        list[str],
        "Add to the logit of a token id (-inf forbids it); may be repeated.",
        metavar="ID=BIAS",
    ),
    Setting("repeat_penalty", float, "Divide the logits of tokens said lately by this; 1 is off.", REPETITION),
    Setting("frequency_penalty", float, "Subtract this per time a token was said; 0 is off.", REPETITION),
    Setting("presence_penalty", float, "Subtract this if a token was said; 0 is off.", REPETITION),
    Setting(
        "penalty_last_n",
        int,
        "How far back penalties look; -1 is everything, 0 is off.",
        REPETITION,
        metavar="TOKENS",
    ),
    Setting("dry_multiplier", float, "Strength of DRY against repeated sequences; 0 is off.", REPETITION),
    Setting("dry_base", float, "DRY grows by this factor with each repeated token.", REPETITION),
    Setting(
        "dry_allowed_length", int, "Repetitions shorter than this are free.", REPETITION, metavar="TOKENS"
    ),
    Setting("dry_penalty_last_n", int, "How far back DRY looks; -1 is everything.", REPETITION, metavar="TOKENS"),
    Setting(
        "dry_sequence_breakers",
        list[str],
        "DRY does not look across this text; may be repeated.",
        REPETITION,
        "--dry-sequence-breaker",
        "TEXT",
    ),
)  # fmt: skip


def takes_sampling(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with an option for each setting in place of its `**sampling`, which gets those that were given."""
    names = {setting.name for setting in SETTINGS}

    @functools.wraps(verb)
    def call(*arguments: Any, **options: Any) -> None:
        verb(
            *arguments,
            **{
                name: value for name, value in options.items() if name not in names or value not in (None, [])
            },
        )

    signature = inspect.signature(verb, eval_str=True)
    parameters = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    parameters += [setting.parameter() for setting in SETTINGS]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    return call


def sampling_options(
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    seed: int | None,
    max_tokens: int,
    more: dict[str, Any],
) -> dict[str, Any]:
    """Command line values as options of LLM.generate and LLM.chat. more: of SETTINGS, those that were given."""
    options: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    if seed is not None:
        options["seed"] = seed
    options["max_tokens"] = None if max_tokens < 0 else max_tokens
    options.update(more)
    if "logit_bias" in options:
        options["logit_bias"] = dict(map(_bias, options["logit_bias"]))
    return options


def _bias(text: str) -> tuple[int, float]:
    token, _, value = text.partition("=")
    try:
        return int(token), float(value)
    except ValueError:
        raise OptionError(
            f"--logit-bias takes a token id and a number such as 42=-1.5, not {text!r}"
        ) from None
