"""`pyspec-cli bench`: how fast is this model on this machine, plain and with drafters?"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyspec.cli import options as opt
from pyspec.cli.common import Runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspec.llm.results import GenerationResult


def bench(
    context: typer.Context,
    model: opt.Model,
    draft: opt.Draft = None,
    drafters: opt.Drafters = None,
    n_draft: opt.NDraft = None,
    controller: opt.Controller = None,
    workloads: Annotated[
        str | None,
        typer.Option(
            "--workloads", metavar="LIST", help="Some of edit,code,quote,json,prose.  [default: all]"
        ),
    ] = None,
    tokens: Annotated[int, typer.Option("--tokens", help="Length of each answer, in tokens.")] = 128,
    prompt_tokens: Annotated[
        int, typer.Option("--prompt-tokens", help="Length of the prompt that is timed.")
    ] = 512,
    repeat: Annotated[int, typer.Option("--repeat", help="Runs of each kind; medians are shown.")] = 3,
    n_ctx: opt.NCtx = 4096,
    threads: opt.Threads = 0,
    plot: Annotated[
        str | None,
        typer.Option(
            "--plot",
            metavar="FILE.png",
            rich_help_panel=opt.OUTPUT,
            help="Draw the result (needs matplotlib).",
        ),
    ] = None,
    stats: opt.Stats = None,
    json: opt.Json = False,
    offline: opt.Offline = False,
    accept_licence: opt.AcceptLicence = False,
) -> None:
    """Measure the speed of a model on this machine.

    Loading, prompt processing, and greedy answers to five kinds of questions, plain and with drafters in turns: tokens per
    second of each kind, and how many drafted tokens were accepted at each place.
    """
    from pyspec.cli.bench_report import check_plot, report_lines, write_plot
    from pyspec.cli.bench_run import measure
    from pyspec.cli.session import open_llm
    from pyspec.cli.statistics import check_stats_form, print_stats
    from pyspec.errors import OptionError

    runtime: Runtime = context.obj
    for name, value in (("--tokens", tokens), ("--prompt-tokens", prompt_tokens), ("--repeat", repeat)):
        if value < 1:
            raise OptionError(f"{name} has to be at least 1, not {value}")
    check_stats_form(stats)
    kinds = _kinds(workloads)
    if plot is not None:
        check_plot(plot)

    def open_model() -> Any:
        return open_llm(
            runtime,
            model,
            draft,
            offline=offline,
            accept_licence=accept_licence,
            template=None,
            drafters=drafters,
            n_draft=n_draft,
            controller=controller,
            n_ctx=n_ctx,
            n_threads=threads,
        )

    with _progress(2 * repeat * len(kinds) if drafters != "none" else repeat * len(kinds)) as step:

        def seen(kind: str, way: str, turn: int, answer: GenerationResult) -> None:
            if stats is not None:
                if stats == "table":
                    print(f"{kind}, {way}, pass {turn}", file=sys.stderr)
                print_stats(stats, answer, workload=kind, way=way, turn=turn)
            step(kind)

        result = measure(
            open_model,
            model,
            kinds,
            tokens=tokens,
            prompt_tokens=prompt_tokens,
            repeat=repeat,
            drafted=drafters != "none",
            seen=seen,
        )
    if json:
        from json import dumps

        print(dumps(result.json()))
    else:
        for line in report_lines(result):
            print(line)
    if plot is not None:
        write_plot(result, plot)


def _kinds(text: str | None) -> list[str]:
    from pyspec.cli.bench_workloads import WORKLOADS
    from pyspec.errors import OptionError

    kinds = list(WORKLOADS) if text is None else [word.strip() for word in text.split(",")]
    for kind in kinds:
        if kind not in WORKLOADS:
            raise OptionError(f"--workloads: {kind!r} is none of {', '.join(WORKLOADS)}")
    return list(dict.fromkeys(kinds))


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str], None]]:
    """A line on a terminal's stderr that counts answers; gone afterwards."""
    done = 0
    shown = sys.stderr.isatty()

    def step(kind: str) -> None:
        nonlocal done
        done += 1
        if shown:
            print(f"\r\x1b[Kbench: {done} of {total} answers ({kind})", end="", file=sys.stderr, flush=True)

    try:
        yield step
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
