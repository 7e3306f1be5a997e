"""Numbers of an answer: the line after it, and JSON. The table is in `stats_table`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pyspec.cli.output import plural
from pyspec.cli.verb import STATS_FORMS
from pyspec.errors import OptionError

if TYPE_CHECKING:
    from pyspec.llm.results import GenerationResult
    from pyspec.speculation.stats import DrafterStats, Stats

_ENDINGS = {"length": "cut at the token limit", "cancelled": "stopped"}


def answer_line(result: GenerationResult) -> str:
    """`23 tokens · 41.2 tok/s · draft-simple 3.1 per round, 87 % accepted`"""
    stats = result.stats
    parts = [plural(result.usage.completion, "token")]
    if stats.tokens_per_second > 0:
        parts.append(f"{stats.tokens_per_second:.1f} tok/s")
    for name, drafter in stats.drafters.items():
        if drafter.drafted:
            per_round = drafter.drafted / max(1, drafter.drafts)
            parts.append(f"{name} {per_round:.1f} per round, {100 * drafter.acceptance:.0f} % accepted")
        elif name in stats.active_drafters:
            parts.append(f"{name} no drafts")
    parts += [f"{name} parked: {why}" for name, why in stats.parked_drafters.items()]
    if stats.acceptance_rule == "synthetic":
        parts.append("SYNTHETIC acceptance: not the model's text")
    if result.finish_reason in _ENDINGS:
        parts.append(_ENDINGS[result.finish_reason])
    return " · ".join(parts)


def check_stats_form(form: str | None) -> None:
    """OptionError unless --stats may have this value."""
    if form is not None and form not in STATS_FORMS:
        raise OptionError(f"--stats is {' or '.join(STATS_FORMS)}, not {form!r}")


def print_stats(form: str, result: GenerationResult, session: Stats | None = None, **more: Any) -> None:
    """What --stats asks for, on stderr: an answer's table, or its JSON object as a line."""
    if form == "json":
        from json import dumps

        print(dumps({**more, **answer_json(result, session)}), file=sys.stderr, flush=True)
        return
    from pyspec.cli.output import printable
    from pyspec.cli.stats_table import stats_lines

    for line in stats_lines(result):
        print(printable(line), file=sys.stderr, flush=True)


def answer_json(result: GenerationResult, session: Stats | None = None) -> dict[str, Any]:
    """The numbers of an answer without the answer itself, named as in --json. session: all answers so far."""
    data: dict[str, Any] = {
        "finish_reason": result.finish_reason,
        "stopped_by": result.stopped_by,
        "seed": result.seed,
        "usage": _usage_json(result),
        "stats": stats_json(result.stats),
    }
    if session is not None:
        data["session"] = stats_json(session)
    return data


def result_json(result: GenerationResult) -> dict[str, Any]:
    """The result as plain data for --json, derived rates included."""
    import dataclasses

    data = dataclasses.asdict(result)
    data["stats"] = stats_json(result.stats)
    data["usage"] = _usage_json(result)
    return data


def stats_json(stats: Stats) -> dict[str, Any]:
    """Counters, times in milliseconds, and what is worked out from them."""
    import dataclasses

    data = dataclasses.asdict(stats)
    for name in ("mean_acceptance_length", "acceptance", "per_position", "draft_overhead"):
        data[name] = getattr(stats, name)
    data["drafters"] = {name: drafter_json(drafter) for name, drafter in stats.drafters.items()}
    return data


def drafter_json(drafter: DrafterStats) -> dict[str, Any]:
    """One drafter's counters and rates."""
    import dataclasses

    data = dataclasses.asdict(drafter)
    for name in ("acceptance", "mean_acceptance_length", "acceptance_per_position", "conditional_acceptance"):
        data[name] = getattr(drafter, name)
    return data


def _usage_json(result: GenerationResult) -> dict[str, int]:
    usage = result.usage
    return {"prompt": usage.prompt, "completion": usage.completion, "total": usage.total}
