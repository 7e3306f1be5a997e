"""What `pyspec-cli bench` shows: bars in the terminal, and a picture through matplotlib."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from pyspec.cli.common import short_name
from pyspec.cli.output import bar, cut_to, plural
from pyspec.errors import OptionError

if TYPE_CHECKING:
    from pyspec.cli.bench_run import BenchResult

#: Columns of the longest bar; lines stay within 80.
BAR = 30
#: Places in a draft that have a bar.
PLACES = 12


def report_lines(result: BenchResult) -> Iterator[str]:
    """Speed by workload, then acceptance by place in the draft."""
    yield f"load    {result.load_s:.2f} s"
    yield f"prompt  {result.prompt_tok_s:.1f} tok/s ({plural(result.prompt_tokens, 'token')})"
    yield ""
    yield "tokens per second"
    speeds = [s for one in result.workloads.values() for s in (median(one.plain), median(one.drafted or [0]))]
    largest = max(speeds) or 1.0
    for kind, one in result.workloads.items():
        speed = median(one.plain)
        yield f"{kind:6}  {'plain':8} {speed:8.1f}  {bar(speed / largest, BAR)}"
        if one.drafted:
            speed = median(one.drafted)
            mark = "" if one.same_text else "  OTHER TEXT"
            gain = f"{one.speedup:.2f} x" if one.speedup else ""
            yield f"{'':6}  {'drafters':8} {speed:8.1f}  {bar(speed / largest, BAR)} {gain}{mark}".rstrip()
    if result.speedup is None:
        return
    same = all(one.same_text for one in result.workloads.values())
    yield f"together {result.speedup:.2f} x plain, {'same text' if same else 'OTHER TEXT'}"
    for name, drafter in result.drafters.items():
        if not drafter.drafted:
            continue
        yield ""
        yield (
            f"{cut_to(name, 24)}: {drafter.accepted} of {drafter.drafted} drafted tokens accepted, by place in the draft"
        )
        chances, offered = drafter.conditional_acceptance, drafter.proposed_per_position
        for place, chance in enumerate(chances[:PLACES]):
            reached = drafter.drafts if place == 0 else drafter.per_position[place - 1]
            tried = min(reached, offered[place])
            yield (
                f"{place + 1:6}  {100 * chance:5.0f} %  {bar(chance, BAR)} of {tried}"
                if tried
                else f"{place + 1:6}"
            )
        if len(chances) > PLACES:
            yield f"        and {plural(len(chances) - PLACES, 'place')} more (--json has them)"


def require_matplotlib() -> Any:
    """matplotlib's figure module; OptionError, which says what to install, when it is missing."""
    try:
        import matplotlib.figure
    except ImportError:
        raise OptionError(
            "--plot needs matplotlib, which is not installed: pip install matplotlib (or pyspec's extra 'plot')"
        ) from None
    return matplotlib.figure


def check_plot(file: str) -> None:
    """OptionError, before anything is measured, when the picture could not be made."""
    path = Path(file)
    if path.suffix.lower() != ".png":
        raise OptionError(
            f"--plot writes a PNG file: its name ends with .png, not {path.suffix or 'nothing'!r}"
        )
    if not path.absolute().parent.is_dir():
        raise OptionError(f"--plot: no such directory: {path.absolute().parent}")
    require_matplotlib()


def write_plot(result: BenchResult, file: str) -> None:
    """A PNG with two panels: tokens per second by workload, and acceptance by place in the draft."""
    figure = require_matplotlib().Figure(
        figsize=(11, 4.5), layout="constrained"
    )  # no window, no global state
    figure.suptitle(short_name(result.model))
    panels = figure.subplots(1, 2 if result.drafters else 1, squeeze=False)[0]
    _plot_speed(panels[0], result)
    if result.drafters:
        _plot_acceptance(panels[1], result)
    figure.savefig(file, format="png", dpi=150)


def _plot_speed(axes: Any, result: BenchResult) -> None:
    kinds = list(result.workloads)
    places = range(len(kinds))
    plain = [median(one.plain) for one in result.workloads.values()]
    axes.bar([x - 0.2 for x in places], plain, 0.4, label="plain", color="#9aa5b1")
    if result.speedup is not None:
        drafted = [median(one.drafted) for one in result.workloads.values()]
        bars = axes.bar([x + 0.2 for x in places], drafted, 0.4, label="with drafters", color="#2f6fb3")
        axes.bar_label(bars, [f"{one.speedup or 0:.2f} x" for one in result.workloads.values()], fontsize=9)
    axes.set_xticks(list(places), kinds)
    axes.set_ylabel("tokens per second")
    axes.margins(y=0.15)
    axes.set_ylim(bottom=0)
    axes.legend()


def _plot_acceptance(axes: Any, result: BenchResult) -> None:
    for name, drafter in result.drafters.items():
        chances = drafter.conditional_acceptance
        if chances:
            axes.plot(range(1, len(chances) + 1), [100 * c for c in chances], marker="o", label=name)
    axes.set_xlabel("place in the draft")
    axes.set_ylabel("accepted when those before were, %")
    axes.set_ylim(0, 105)
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend()
