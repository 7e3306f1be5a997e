"""What an LLM is opened with: arguments checked and resolved before or right after the file is opened."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspec.drafters.base import Drafter
from pyspec.drafters.registry import (
    DEFAULT_DRAFTER,
    DEFAULT_WITH_DRAFT_MODEL,
    DrafterSpec,
    parse_drafters,
)
from pyspec.errors import OptionError
from pyspec.llm.drafter_set import check_draft_file

if TYPE_CHECKING:
    pass

log = logging.getLogger("pyspec")

#: Longest draft of a draft model when the controller decides after each token whether it goes on. (A fixed length
#: has to be good on average: the drafter's own default.)
LONGEST_MODEL_DRAFT = 16


def wanted_drafters(drafters: Any, draft: Any, n_draft: int | None, mode: str) -> list[DrafterSpec | Drafter]:
    """The drafters an LLM starts with. Checks everything that can be checked without opening a file. mode: see
    controller_mode.
    """
    wanted: list[DrafterSpec | Drafter]
    if drafters is None:
        wanted = [DrafterSpec(DEFAULT_DRAFTER)]
        if draft is not None:
            wanted.append(DrafterSpec(DEFAULT_WITH_DRAFT_MODEL))
    else:
        wanted = parse_drafters(drafters)
    check_draft_file(wanted, draft)
    uses_draft = [uses_draft_model([item]) for item in wanted]
    if (
        draft is not None
        and wanted
        and not any(uses_draft)
        and all(isinstance(i, DrafterSpec) for i in wanted)
    ):
        raise OptionError(
            f"draft={os.fspath(draft)} is given, but none of the drafters "
            f"{', '.join(item.name for item in wanted)} uses it; "
            f"add {DEFAULT_WITH_DRAFT_MODEL} or leave the draft out"
        )
    if n_draft is not None and (type(n_draft) is not int or not 1 <= n_draft <= 1024):
        raise OptionError(f"n_draft must be a whole number from 1 to 1024, not {n_draft!r}")
    return with_lengths(wanted, n_draft, mode)


def with_lengths(
    wanted: list[DrafterSpec | Drafter], n_draft: int | None, mode: str
) -> list[DrafterSpec | Drafter]:
    """The same, drafters with a draft model being told how long a draft may get where they were not."""
    longest = n_draft or (LONGEST_MODEL_DRAFT if mode == "auto" else None)
    if longest is None:
        return wanted
    return [
        item.with_default("n_draft", longest)
        if isinstance(item, DrafterSpec) and item.kind.needs_draft_model
        else item
        for item in wanted
    ]


def check_corpora(corpora: Sequence[object], wanted: Sequence[DrafterSpec | Drafter]) -> None:
    """OptionError for corpora that no drafter would copy from."""
    if corpora and not any(item.name == DEFAULT_DRAFTER or hasattr(item, "add_corpus") for item in wanted):
        raise OptionError(
            f"corpora are texts to copy drafts from, and none of the drafters "
            f"{', '.join(item.name for item in wanted) or '(none)'} does; {DEFAULT_DRAFTER} would"
        )


def uses_draft_model(wanted: Sequence[DrafterSpec | Drafter]) -> bool:
    return any(isinstance(item, DrafterSpec) and item.kind.needs_draft_model for item in wanted)


def progress_steps(
    progress: Callable[[float], None] | None, *files: str | os.PathLike[str] | None
) -> Iterator[Callable[[float], None]]:
    """For each file that is going to be opened a callback that maps its progress to its share of the
    whole.
    """
    if progress is None:
        return
    sizes = []
    for file in files:
        try:
            sizes.append(0 if file is None else os.path.getsize(file))
        except OSError:
            sizes.append(0)  # opening it will say what is wrong
    total, before = max(1, sum(sizes)), 0
    for size in sizes:

        def step(fraction: float, start: float = before / total, share: float = size / total) -> None:
            progress(min(1.0, start + share * fraction) if total > 1 else fraction)

        before += size
        yield step


def controller_mode(controller: str | None, n_draft: int | None) -> str:
    """ "auto" or "fixed"."""
    if controller is None:
        return "auto" if n_draft is None else "fixed"
    if controller not in ("auto", "fixed"):
        raise OptionError(f"controller must be 'auto' or 'fixed', not {controller!r}")
    return controller


def checked_times(times: Mapping[int, float]) -> dict[int, float]:
    """A cost table given by the user; OptionError unless it can be used."""
    try:
        found = {int(n): float(ms) for n, ms in times.items()}
    except (AttributeError, TypeError, ValueError):
        raise OptionError(f"cost_table maps numbers of rows to milliseconds, not {times!r}") from None
    if 1 not in found or len(found) < 2 or min(found) < 1 or not all(0 < ms < 1e9 for ms in found.values()):
        raise OptionError(
            f"cost_table needs times above 0 for 1 row and for at least one larger number of rows, not {times!r}"
        )
    return found


def longest_draft(item: DrafterSpec | Drafter) -> int:
    if isinstance(item, DrafterSpec):
        values = item.values()
        return max(int(values.get(name, 0)) for name in ("n_draft", "m", "n_max"))
    return int(getattr(item, "max_draft", 0))


def context_length(n_ctx: int, n_ctx_train: int) -> int:
    if isinstance(n_ctx, bool) or not isinstance(n_ctx, int) or n_ctx < 0:
        raise OptionError(f"n_ctx must be a whole number >= 0, not {n_ctx!r}")
    if n_ctx == 0 or n_ctx > n_ctx_train > 0:
        if n_ctx > 4096:
            log.warning(
                "n_ctx=%d is more than the %d tokens this model was trained with; using those",
                n_ctx,
                n_ctx_train,
            )
        return n_ctx_train
    return n_ctx
