"""Which drafters exist, what they are called and which options they take. Adding one: one file and one line
here.

A request for drafters is a name with options, `ngram-simple:n=12,m=48`; several are separated by commas or
given as a list, and drafter objects may stand among them. Everything is checked before any model file is opened.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspec.drafters.base import Drafter
from pyspec.errors import OptionError

if TYPE_CHECKING:
    from pyspec.drafters.draft_simple import DraftSimple

    DraftersArgument = str | Drafter | Sequence[str | Drafter] | None

#: Value of an option.
OptionValue = float | str


@dataclass(frozen=True, slots=True)
class DrafterOption:
    """One option of a drafter: a number within [low, high]."""

    name: str
    default: float
    low: float
    high: float
    meaning: str
    integer: bool = True

    def parse(self, drafter: str, value: Any) -> float:
        """The value as a number in range; OptionError says what was found and what is allowed."""
        try:
            number = int(value) if self.integer else float(value)
            if isinstance(value, float) and value != number:
                raise ValueError
        except (TypeError, ValueError):
            kind = "a whole number" if self.integer else "a number"
            raise OptionError(f"{drafter}: {self.name}={value} is not {kind}") from None
        if not self.low <= number <= self.high:
            raise OptionError(
                f"{drafter}: {self.name}={value} is out of range {self.low:g}..{self.high:g} ({self.meaning})"
            )
        return number

    def text(self, value: OptionValue) -> str:
        """`name=value` as a request has it."""
        return f"{self.name}={value:g}" if self.integer is False else f"{self.name}={value}"


@dataclass(frozen=True, slots=True)
class PathOption:
    """One option of a drafter: the path of a file; "" means none."""

    name: str
    meaning: str
    default: str = ""

    def parse(self, drafter: str, value: Any) -> str:
        """The path, ~ expanded. OptionError for what is not one. Whether the file must exist is for the drafter's
        kind to say.
        """
        if not isinstance(value, (str, os.PathLike)) or not (path := os.fspath(value)) or "\0" in str(path):
            raise OptionError(f"{drafter}: {self.name}={value!r} is not a path ({self.meaning})")
        return os.path.expanduser(os.fsdecode(path))

    def text(self, value: OptionValue) -> str:
        """`name=value` as a request has it."""
        return f"{self.name}={value}"


@dataclass(frozen=True, slots=True)
class DrafterParts:
    """What a drafter may be built from. draft_context() makes a new context on the draft model, sized for
    drafting. end_tokens: the ids for which is_end is true.
    """

    n_vocab: int
    draft_context: Callable[[], Any]
    is_end: Callable[[int], bool]
    choose: Callable[..., tuple[int, float]]
    draft_cost: Callable[[], float | None] = lambda: None
    end_tokens: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class DrafterKind:
    """One registry line. check: raises OptionError for values that do not fit together, or files that are missing.
    configure: gives a drafter other options and keeps what it has read; of kinds whose memory is large, so that an LLM
    has one of them. None: other options make another drafter.
    """

    name: str
    summary: str
    options: tuple[DrafterOption | PathOption, ...]
    needs_draft_model: bool
    build: Callable[[Mapping[str, OptionValue], DrafterParts], Drafter]
    check: Callable[[Mapping[str, OptionValue]], None] | None = None
    configure: Callable[[Any, Mapping[str, OptionValue]], None] | None = None

    def option(self, name: str) -> DrafterOption | PathOption:
        for option in self.options:
            if option.name == name:
                return option
        known = [option.name for option in self.options]
        raise OptionError(
            f"{self.name} has no option '{name}'{did_you_mean(name, known)}; it has {', '.join(known)}"
        )


@dataclass(frozen=True, slots=True)
class DrafterSpec:
    """A named drafter with the options that were given; the rest have their defaults."""

    name: str
    given: tuple[tuple[str, OptionValue], ...] = ()

    @property
    def kind(self) -> DrafterKind:
        return drafter_kind(self.name)

    def values(self) -> dict[str, OptionValue]:
        """All options with their values."""
        defaults: dict[str, OptionValue] = {option.name: option.default for option in self.kind.options}
        return defaults | dict(self.given)

    def checked(self) -> DrafterSpec:
        """This, if its options fit together; else OptionError."""
        if self.kind.check is not None:
            self.kind.check(self.values())
        return self

    def with_default(self, option: str, value: object) -> DrafterSpec:
        """The same with an option set, unless it was given already."""
        if any(name == option for name, _ in self.given):
            return self
        return DrafterSpec(
            self.name, (*self.given, (option, self.kind.option(option).parse(self.name, value)))
        )

    def __str__(self) -> str:
        values = self.values()
        shown = [
            option.text(values[option.name]) for option in self.kind.options if values[option.name] != ""
        ]
        return f"{self.name}:{','.join(shown)}"


def _whole(options: Mapping[str, OptionValue], *names: str) -> dict[str, int]:
    """Some options as whole numbers."""
    return {name: int(options[name]) for name in names}


def _build_suffix(options: Mapping[str, OptionValue], parts: DrafterParts) -> Drafter:
    from pyspec.drafters.suffix import Suffix

    return Suffix(
        m=int(options["m"]),
        p_min=float(options["p_min"]),
        memory=int(options["memory"]),
        end_tokens=parts.end_tokens,
    )


def _build_grammar(options: Mapping[str, OptionValue], parts: DrafterParts) -> Drafter:
    from pyspec.drafters.grammar import GrammarDrafter

    return GrammarDrafter(m=int(options["m"]))


def _build_ngram_simple(options: Mapping[str, OptionValue], parts: DrafterParts) -> Drafter:
    from pyspec.drafters.ngram_simple import NgramSimple

    return NgramSimple(**_whole(options, "n", "m"))


def _build_ngram_map_k(options: Mapping[str, OptionValue], parts: DrafterParts) -> Drafter:
    from pyspec.drafters.ngram_map import NgramMapK

    return NgramMapK(**_whole(options, "n", "m", "min_hits"))


def _build_ngram_map_k4v(options: Mapping[str, OptionValue], parts: DrafterParts) -> Drafter:
    from pyspec.drafters.ngram_map import NgramMapK4v

    return NgramMapK4v(**_whole(options, "n", "m", "min_hits"))


def _build_ngram_mod(options: Mapping[str, OptionValue], parts: DrafterParts) -> Drafter:
    from pyspec.drafters.ngram_mod import NgramMod

    return NgramMod(**_whole(options, "n_match", "n_min", "n_max", "entries"))


def _check_ngram_mod(options: Mapping[str, OptionValue]) -> None:
    if int(options["n_min"]) > int(options["n_max"]):
        raise OptionError(
            f"ngram-mod: n_min={options['n_min']} is above n_max={options['n_max']}: there would never be a draft"
        )


def _build_ngram_cache(options: Mapping[str, OptionValue], parts: DrafterParts) -> Drafter:
    from pyspec.drafters.ngram_cache import NgramCache

    return NgramCache(
        int(options["n_max"]),
        n_vocab=parts.n_vocab,
        dynamic=str(options["dynamic"]),
        static=str(options["static"]),
        save=bool(options["save"]),
    )


def _check_ngram_cache(options: Mapping[str, OptionValue]) -> None:
    save = bool(options["save"])
    for name in ("static", "dynamic"):
        path = str(options[name])
        if not path:
            continue
        new = save and name == "dynamic" and not os.path.lexists(path)
        if new and not os.path.isdir(os.path.dirname(path) or "."):
            raise OptionError(f"ngram-cache: {name}={path}: its folder does not exist")
        if not new and not os.path.isfile(path):
            reason = "is not a file" if os.path.exists(path) else "does not exist"
            hint = "" if name == "static" or save else " (save=1 makes a new one)"
            raise OptionError(f"ngram-cache: {name}={path} {reason}{hint}")
    if save and not options["dynamic"]:
        raise OptionError("ngram-cache: save=1 needs the file to write: dynamic=FILE")


def _build_draft_simple(options: Mapping[str, OptionValue], parts: DrafterParts) -> Drafter:
    from pyspec.drafters.draft_simple import DraftSimple

    drafter = DraftSimple(
        parts.draft_context(),
        n_allowed=parts.n_vocab,
        is_end=parts.is_end,
        choose=parts.choose,
        cost_hint=parts.draft_cost(),
    )
    _configure_draft_simple(drafter, options)
    return drafter


def _configure_draft_simple(drafter: DraftSimple, options: Mapping[str, OptionValue]) -> None:
    drafter.configure(
        n_draft=int(options["n_draft"]),
        p_min=float(options["p_min"]),
        n_min=int(options["n_min"]),
        coupled=bool(options["coupled"]),
    )


#: In priority order: the first that answers owns the round.
DRAFTER_KINDS: tuple[DrafterKind, ...] = (
    DrafterKind(
        "grammar",
        "what the grammar of the call forces next",
        (DrafterOption("m", 32, 1, 1024, "longest draft, in tokens"),),
        needs_draft_model=False,
        build=_build_grammar,
    ),
    DrafterKind(
        "suffix",
        "copies what followed the longest match of the current text, as far as the evidence carries",
        (
            DrafterOption("m", 31, 1, 1024, "longest draft, in tokens"),
            DrafterOption(
                "p_min",
                0.5,
                0.0,
                1.0,
                "without a controller, a draft ends where its chance falls below",
                False,
            ),
            DrafterOption("memory", 256, 1, 262144, "text it remembers, in units of 1024 tokens"),
        ),
        needs_draft_model=False,
        build=_build_suffix,
    ),
    DrafterKind(
        "ngram-simple",
        "copies what followed the last occurrence of the current n tokens",
        (
            DrafterOption("n", 3, 1, 1024, "tokens that must match, and the shortest draft"),
            DrafterOption("m", 16, 1, 1024, "longest draft, in tokens"),
        ),
        needs_draft_model=False,
        build=_build_ngram_simple,
    ),
    DrafterKind(
        "ngram-map-k",
        "copies the last whole continuation of the current n tokens, as far as it was worth before",
        (
            DrafterOption("n", 3, 1, 1024, "tokens that must match"),
            DrafterOption("m", 16, 1, 1024, "longest draft, and length of a continuation, in tokens"),
            DrafterOption("min_hits", 1, 1, 1024, "occurrences it takes"),
        ),
        needs_draft_model=False,
        build=_build_ngram_map_k,
    ),
    DrafterKind(
        "ngram-map-k4v",
        "copies the clear majority of up to four continuations of the current n tokens",
        (
            DrafterOption("n", 3, 1, 1024, "tokens that must match"),
            DrafterOption("m", 4, 1, 1024, "longest draft, and length of a continuation, in tokens"),
            DrafterOption("min_hits", 1, 1, 1024, "occurrences it takes"),
        ),
        needs_draft_model=False,
        build=_build_ngram_map_k4v,
    ),
    DrafterKind(
        "ngram-mod",
        "token by token from a hash table of all text of the session",
        (
            DrafterOption("n_match", 4, 1, 1024, "tokens that must match"),
            DrafterOption("n_min", 2, 0, 1024, "shorter drafts are dropped"),
            DrafterOption("n_max", 16, 1, 1024, "longest draft, in tokens"),
            DrafterOption("entries", 1 << 17, 1024, 1 << 24, "size of the table, 8 bytes each"),
        ),
        needs_draft_model=False,
        build=_build_ngram_mod,
        check=_check_ngram_mod,
    ),
    DrafterKind(
        "ngram-cache",
        "token by token from counts of this text and of files",
        (
            DrafterOption("n_max", 8, 1, 1024, "longest draft, in tokens"),
            PathOption("static", "file of counts from a large collection"),
            PathOption("dynamic", "file of counts from earlier sessions"),
            DrafterOption("save", 0, 0, 1, "1: write the dynamic file at the end"),
        ),
        needs_draft_model=False,
        build=_build_ngram_cache,
        check=_check_ngram_cache,
    ),
    DrafterKind(
        "draft-simple",
        "a smaller model with the same vocabulary (draft=FILE)",
        (
            DrafterOption("n_draft", 3, 1, 1024, "longest draft, in tokens; under a controller 16"),
            DrafterOption(
                "p_min", 0.6, 0.0, 1.0, "drafting stops when the best candidate is less probable", False
            ),
            DrafterOption("n_min", 0, 0, 1024, "shorter drafts are dropped"),
            DrafterOption(
                "coupled", 1, 0, 1, "above temperature 0 make the target's own draw; 0: draft the best"
            ),
        ),
        needs_draft_model=True,
        build=_build_draft_simple,
        configure=_configure_draft_simple,
    ),
)

#: What works without being asked for.
DEFAULT_DRAFTER = "suffix"
#: What `draft=` without `drafters=` means besides.
DEFAULT_WITH_DRAFT_MODEL = "draft-simple"


def drafter_names() -> list[str]:
    """Every name that `drafters=` accepts."""
    return ["none", *(kind.name for kind in DRAFTER_KINDS)]


def drafter_kind(name: str) -> DrafterKind:
    """The registry line of a name; OptionError lists the valid ones."""
    for kind in DRAFTER_KINDS:
        if kind.name == name:
            return kind
    names = drafter_names()
    raise OptionError(f"unknown drafter '{name}'{did_you_mean(name, names)}; valid names: {', '.join(names)}")


def parse_drafters(request: DraftersArgument) -> list[DrafterSpec | Drafter]:
    """What `drafters=` says, checked; [] for "none" and for an empty list. Not for None, which means the
    default.
    """
    items: Iterable[Any]
    if request is None:
        return []
    is_single = isinstance(request, (str, DrafterSpec)) or not isinstance(request, Iterable)
    items = [request] if is_single else request  # type: ignore[assignment]
    found: list[DrafterSpec | Drafter] = []
    none_given = False
    for item in items:
        if isinstance(item, str):
            for spec in _parse_text(item):
                if spec is None:
                    none_given = True
                else:
                    found.append(spec)
        elif isinstance(item, DrafterSpec):
            found.append(item.checked())
        else:
            found.append(checked_object(item))
    if none_given and found:
        raise OptionError("'none' cannot be combined with other drafters")
    names = [item.name for item in found]
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"drafter '{name}' is given twice")
    return found


def checked_object(item: Any) -> Drafter:
    """A drafter object that has the whole protocol, or OptionError naming what is missing."""
    if isinstance(item, type):
        raise OptionError(f"drafters takes drafter objects, not the class {item.__name__}")
    calls = ("begin", "propose", "commit", "truncate", "shift", "checkpoint", "restore", "close")
    missing = [call for call in calls if not callable(getattr(item, call, None))]
    if not isinstance(getattr(item, "name", None), str):
        missing.append("name")
    if missing:
        raise OptionError(
            f"{type(item).__name__} is not a drafter: it lacks {', '.join(missing)} "
            "(inherit from pyspec.Drafter)"
        )
    return item  # type: ignore[no-any-return]


def _parse_text(text: str) -> list[DrafterSpec | None]:
    """`a:x=1,y=2,b` as specs; None stands for "none"."""
    found: list[tuple[DrafterKind | None, dict[str, OptionValue]]] = []
    for piece in text.split(","):
        name, colon, rest = piece.strip().partition(":")
        if "=" in name:  # a colon within a value
            name, colon, rest = piece.strip(), "", ""
        option = rest if colon else name
        if colon or "=" not in name:
            found.append((None if name == "none" else drafter_kind(name), {}))
            if not colon:
                continue
        kind, options = found[-1] if found else (None, {})
        if kind is None:
            raise OptionError(f"'{piece.strip()}' does not belong to a drafter; write NAME:option=value,...")
        key, equals, value = option.partition("=")
        if not equals:
            raise OptionError(f"'{piece.strip()}': expected NAME:option=value,...")
        if key in options:
            raise OptionError(f"{kind.name}: {key} is given twice")
        options[key] = kind.option(key).parse(kind.name, value)
    return [
        None if kind is None else DrafterSpec(kind.name, tuple(options.items())).checked()
        for kind, options in found
    ]


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """`, did you mean 'x'?` in parentheses, or nothing."""
    close = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""
