"""Numbers of an answer, as the line after it, the table behind --stats and /stats, and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspec.cli.output import columns_table, plural

if TYPE_CHECKING:
    from pyspec.llm.results import GenerationResult
    from pyspec.speculation.stats import DrafterStats

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
    if result.finish_reason in _ENDINGS:
        parts.append(_ENDINGS[result.finish_reason])
    return " · ".join(parts)


def stats_lines(result: GenerationResult) -> Iterator[str]:
    """The table behind --stats: tokens, speed, every drafter, where the time went."""
    stats, usage = result.stats, result.usage
    reused = f", {stats.prompt_tokens_reused} of them reused" if stats.prompt_tokens_reused else ""
    speed = 1000 * stats.prompt_tokens_evaluated / stats.prompt_ms if stats.prompt_ms > 0 else 0.0
    by = f" by {result.stopped_by!r}" if isinstance(result.stopped_by, str) else ""
    yield f"prompt    {plural(usage.prompt, 'token')}{reused}, {stats.prompt_ms / 1000:.2f} s, {speed:.1f} tok/s"
    yield (
        f"answer    {plural(usage.completion, 'token')}, {stats.generation_ms / 1000:.2f} s, "
        f"{stats.tokens_per_second:.1f} tok/s, finished: {result.finish_reason}{by}"
    )
    yield f"sampling  seed {result.seed}"
    yield (
        f"rounds    {stats.rounds}, {stats.verifications} with a draft, "
        f"mean acceptance length {stats.mean_acceptance_length:.2f}"
    )
    yield (
        f"time      prompt {stats.prompt_ms / 1000:.2f} s, draft {stats.draft_ms / 1000:.2f} s, "
        f"verify {stats.verify_ms / 1000:.2f} s, accept {stats.accept_ms / 1000:.2f} s"
    )
    if stats.rollback_mode:
        yield f"rollback  {stats.rollback_mode}"
    if stats.drafters:
        yield from drafter_lines(stats.drafters)
    elif not stats.parked_drafters:
        yield "drafters  none"
    for name, why in stats.parked_drafters.items():
        yield f"{name} was parked: {why}"


def drafter_lines(drafters: dict[str, DrafterStats]) -> Iterator[str]:
    """One line per drafter: calls, drafts, tokens, acceptance overall and by position in the draft."""
    rows = [["drafter", "calls", "drafts", "drafted", "accepted", "rate", "seconds", "rate by position"]]
    for name, drafter in drafters.items():
        pairs = zip(drafter.per_position, drafter.proposed_per_position, strict=True)
        positions = [f"{accepted / proposed:.2f}" for accepted, proposed in pairs if proposed]
        shown = " ".join(positions[:8]) + (" …" if len(positions) > 8 else "")
        counts = [str(n) for n in (drafter.calls, drafter.drafts, drafter.drafted, drafter.accepted)]
        rows.append([name, *counts, f"{100 * drafter.acceptance:.1f} %", f"{drafter.ms / 1000:.2f}", shown])
    yield from columns_table(rows, right=frozenset(range(1, 7)))


def result_json(result: GenerationResult) -> dict[str, Any]:
    """The result as plain data for --json, derived rates included."""
    import dataclasses

    data = dataclasses.asdict(result)
    data["stats"]["mean_acceptance_length"] = result.stats.mean_acceptance_length
    data["stats"]["acceptance"] = result.stats.acceptance
    data["usage"]["total"] = result.usage.total
    return data
