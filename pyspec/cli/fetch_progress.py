"""How a download looks: a bar in a terminal, a few lines in a log."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspec.fetch import FetchProgress

_STAGES = {
    "download": "downloading",
    "check": "checking",
    "wait": "waiting for another pyspec to finish fetching",
}


class FetchDisplay:
    """Progress callback with a display on stderr that appears at the first report and goes at exit."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._stage = ""
        self._quarter = 0

    def __enter__(self) -> FetchDisplay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if isinstance(error, KeyboardInterrupt) and self._stage:
            print("fetch stopped; finished parts are kept, the next try goes on from there", file=sys.stderr)

    def update(self, progress: FetchProgress) -> None:
        """Show one report of pyspec.fetch."""
        if sys.stderr.isatty():
            self._draw(progress)
        else:
            self._log(progress)
        self._stage = progress.stage

    def _draw(self, progress: FetchProgress) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        if self._bar is None:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(compact=True),
                console=Console(stderr=True),
                transient=True,
                expand=True,
            )
            self._bar.start()
        if progress.stage != self._stage:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task("", total=progress.total_bytes)
        parts = f" part {progress.parts_done + 1}/{progress.n_parts}" if _in_parts(progress) else ""
        description = f"{progress.model}: {_STAGES[progress.stage]}{parts}"
        self._bar.update(self._task, completed=progress.done_bytes, description=description)

    def _log(self, progress: FetchProgress) -> None:
        if progress.stage != self._stage:
            self._quarter = 0
            if progress.stage != "check":
                print(f"{progress.model}: {_STAGES[progress.stage]}", file=sys.stderr, flush=True)
        quarter = 4 * progress.done_bytes // max(1, progress.total_bytes)
        if progress.stage == "download" and quarter > self._quarter:
            self._quarter = quarter
            print(f"{progress.model}: {25 * quarter} %", file=sys.stderr, flush=True)


def _in_parts(progress: FetchProgress) -> bool:
    return progress.stage == "download" and 1 < progress.n_parts > progress.parts_done
