"""Statistics as a table for people, at most WIDTH columns wide: behind --stats and /stats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspec.cli.output import bar, columns_table, cut_to, duration, plural

if TYPE_CHECKING:
    from pyspec.llm.results import GenerationResult
    from pyspec.speculation.stats import ControllerStats, DrafterStats, Stats

WIDTH = 80
#: Columns of the labels.
LABEL = 14
#: Places in a draft that have a column.
PLACES = (WIDTH - LABEL) // 4
#: Draft lengths that share a line of the histogram: first and last.
LENGTHS = ((0, 0), (1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, 10**9))


def stats_lines(result: GenerationResult) -> Iterator[str]:
    """One answer."""
    usage = result.usage
    by = f" by {result.stopped_by!r}" if isinstance(result.stopped_by, str) else ""
    ending = [f"finished: {result.finish_reason}{by}", f"seed {result.seed}"]
    return _lines(result.stats, usage.prompt, usage.completion, ending)


def session_lines(stats: Stats) -> Iterator[str]:
    """All answers of a session together."""
    prompt = stats.prompt_tokens_reused + stats.prompt_tokens_evaluated
    return _lines(stats, prompt, stats.accepted + stats.chosen, [plural(stats.generations, "answer")])


def session_summary(stats: Stats) -> Iterator[str]:
    """The same in a line or two."""
    parts = [
        plural(stats.generations, "answer"),
        plural(stats.accepted + stats.chosen, "token"),
        duration(stats.prompt_ms + stats.generation_ms),
        f"{stats.tokens_per_second:.1f} tok/s",
    ]
    if stats.drafted:
        parts.append(f"{100 * stats.acceptance:.0f} % of drafts accepted")
    if stats.controller is not None:
        parts.append(_saved(stats.controller))
    return row("session", parts)


def row(label: str, parts: Sequence[str], between: str = " · ") -> Iterator[str]:
    """The parts behind a label, on as many lines as they need."""
    label = cut_to(label, LABEL - 2).ljust(LABEL)
    for line in fold(parts, between, WIDTH - LABEL):
        yield (label + line).rstrip()
        label = " " * LABEL


def fold(parts: Sequence[str], between: str, width: int) -> Iterator[str]:
    """The parts joined, in lines of at most `width` columns unless a part alone is longer."""
    line = ""
    for number, part in enumerate(parts):
        more = len(between.rstrip()) if number + 1 < len(parts) else 0
        if line and len(line) + len(between) + len(part) + more > width:
            yield line + between.rstrip()
            line = part
        else:
            line += between + part if line else part
    yield line


def _lines(stats: Stats, prompt: int, answer: int, ending: list[str]) -> Iterator[str]:
    yield from row("prompt", _prompt(stats, prompt))
    speed = [f"{stats.tokens_per_second:.1f} tok/s"] if stats.tokens_per_second > 0 else []
    yield from row("answer", [plural(answer, "token"), duration(stats.generation_ms), *speed, *ending])
    yield from row(
        "rounds",
        [
            f"{stats.rounds}, {stats.verifications} with a draft",
            f"mean acceptance length {stats.mean_acceptance_length:.2f}",
        ],
    )
    if stats.drafted:
        yield from row(
            "draft tokens",
            [
                str(stats.drafted),
                f"accepted {stats.accepted} ({100 * stats.acceptance:.1f} %)",
                f"{stats.chosen} tokens chosen by the model itself",
            ],
        )
    yield from row(
        "time",
        [
            f"prompt {duration(stats.prompt_ms)}",
            f"draft {duration(stats.draft_ms)} ({100 * stats.draft_overhead:.0f} %)",
            f"verify {duration(stats.verify_ms)}",
            f"accept {duration(stats.accept_ms)}",
        ],
    )
    if stats.acceptance_rule != "match":
        yield from row("acceptance", [_RULES.get(stats.acceptance_rule, stats.acceptance_rule)])
    if stats.context_rolls:
        yield from row("context", [f"full {plural(stats.context_rolls, 'time')}: the middle was forgotten"])
    if stats.rollback_mode:
        yield from row("rollback", [stats.rollback_mode])
    if stats.drafters:
        yield ""
        yield from drafter_lines(stats.drafters)
    elif not stats.parked_drafters:
        yield from row("drafters", ["none"])
    for name, why in stats.parked_drafters.items():
        yield from row("parked", f"{name}: {why}".split(), " ")
    if stats.controller is not None:
        yield ""
        yield from controller_lines(stats.controller, stats.generation_ms)


_RULES = {
    "rejection": "rejection: the text has the same distribution, not the same words",
    "synthetic": "SYNTHETIC: drafts were accepted by lot; the text is not the model's",
}


def _prompt(stats: Stats, prompt: int) -> list[str]:
    parts = [plural(prompt, "token")]
    if stats.prompt_tokens_reused:
        parts.append(f"{stats.prompt_tokens_reused} of them reused")
    parts.append(duration(stats.prompt_ms))
    if stats.prompt_ms > 0:
        parts.append(f"{1000 * stats.prompt_tokens_evaluated / stats.prompt_ms:.1f} tok/s")
    return parts


def drafter_lines(drafters: dict[str, DrafterStats]) -> Iterator[str]:
    """Three small tables with a line per drafter: counters, times, and acceptance by place in the draft."""
    names = {name: cut_to(name, LABEL - 2) for name in drafters}
    rows = [
        ["drafters".ljust(LABEL - 2), "calls", "drafts", "right", "drafted", "accepted", "rate", "length"]
    ]
    times = [["times, ms".ljust(LABEL - 2), "drafting", "reading the prompt", "following the text"]]
    for name, one in drafters.items():
        counts = (one.calls, one.drafts, one.accepted_drafts, one.drafted, one.accepted)
        rate = f"{100 * one.acceptance:.1f} %" if one.drafted else "-"
        length = f"{one.mean_acceptance_length:.2f}" if one.drafts else "-"
        rows.append([names[name], *map(str, counts), rate, length])
        times.append([names[name], *(f"{ms:.1f}" for ms in (one.ms, one.begin_ms, one.commit_ms))])
    right = frozenset(range(1, 8))
    yield from columns_table(rows, right=right)
    yield from columns_table(times, right=right)
    accepted = {names[name]: one.conditional_acceptance for name, one in drafters.items() if one.drafted}
    longest = max(map(len, accepted.values()), default=0)
    if longest:
        yield "accepted, %".ljust(LABEL - 1) + "".join(
            f"{place + 1:4}" for place in range(min(longest, PLACES))
        )
    for name, chances in accepted.items():
        cells = [f"{100 * chance:4.0f}" for chance in chances[:PLACES]]
        yield name.ljust(LABEL - 1) + "".join(cells) + ("…" if len(chances) > PLACES else "")


def controller_lines(controller: ControllerStats, generation_ms: float) -> Iterator[str]:
    """What it believed, what it chose, and what that was worth."""
    gain = _saved(controller)
    plain = generation_ms + controller.saved_ms
    if controller.saved_ms > 0 and plain > 0:
        gain += f" ({100 * controller.saved_ms / plain:.0f} %)"
    bank = f"may still lose {duration(controller.bank_ms)}"
    rests = [f"drafters rested in {plural(controller.rests, 'round')}"] if controller.rests else []
    yield from row("controller", [gain, bank, *rests])
    if controller.cost_ms:
        costs = [f"T({n}) {controller.cost_ms[n]:.1f}" for n in _widths(list(controller.cost_ms))]
        yield from row("costs, ms", costs, "  ")
    yield from length_lines(controller.lengths)


def length_lines(lengths: dict[int, int]) -> Iterator[str]:
    """A histogram of draft lengths."""
    counts = [sum(n for k, n in lengths.items() if low <= k <= high) for low, high in LENGTHS]
    while counts and not counts[-1]:
        counts.pop()
    for number, ((low, high), count) in enumerate(zip(LENGTHS, counts, strict=False)):
        label = "draft length" if number == 0 else ""
        name = str(low) if low == high else f"{low}-{high}" if high < 1000 else f"{low}+"
        drawn = bar(count / max(counts), 36)
        yield f"{label.ljust(LABEL)}{name:>5}  {drawn} {plural(count, 'round')}".rstrip()


def _widths(known: list[int]) -> list[int]:
    """At most ten of the widths, those nearest to powers of two."""
    if len(known) <= 10:
        return sorted(known)
    wanted = [2**i for i in range(11)]
    return sorted({min(known, key=lambda n: abs(n - want)) for want in wanted if want <= max(known)})


def _saved(controller: ControllerStats) -> str:
    ms = controller.saved_ms
    return f"saved about {duration(ms)}" if ms >= 0 else f"lost about {duration(-ms)}"
