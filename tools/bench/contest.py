"""Two contestants on one file: opened alike, measured in turns."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from .process import BenchError, Worker
from .result import Result
from .workloads import FILLER, KINDS

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line said. path and draft are files; model and draft_name are what the user called them.

    fill: tokens in memory before a measured decode. tokens: decoded or generated ones. threads 0: pyspec's default.
    peer None: pyspec alone. kernels: the instruction set of ours.
    """

    what: str
    model: str
    path: Path
    threads: int = 0
    repeat: int = 7
    peer: str | None = "llama-cpp-python"
    n_ctx: int = 4096
    fill: int = 128
    tokens: int = 128
    prompt_tokens: int = 512
    widths: tuple[int, ...] = ()
    kinds: tuple[str, ...] = KINDS
    draft_name: str | None = None
    draft: Path | None = None
    drafters: str | None = None
    n_draft: int | None = None
    controller: str | None = None
    kernels: str = "auto"


class Contest:
    """The processes of one benchmark and their turns. Use it in a with statement."""

    def __init__(self, settings: Settings, result: Result) -> None:
        self.settings = settings
        self.result = result
        self.model: dict[str, Any] = {}  # what our side said about the opened model
        self._stack = ExitStack()
        try:
            self.ours = self._stack.enter_context(Worker("pyspec"))
            self.peer = self._stack.enter_context(Worker(settings.peer)) if settings.peer else None
            for side, worker in (("pyspec", self.ours), ("peer", self.peer)):
                if worker is not None:
                    note_versions(result, side, worker.ask("about"))
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Contest:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def open(self, *, n_outputs: int = 64, need: int = 0) -> None:
        """Open the model on both sides, with the same threads and context. need: tokens that must fit into it."""
        settings = self.settings
        path = str(settings.path)
        opened = self.ours.ask(
            "open",
            path=path,
            threads=settings.threads,
            n_ctx=settings.n_ctx,
            n_outputs=n_outputs,
            kernels=settings.kernels,
        )
        self.opened(opened, need)
        self.open_peer(n_outputs=n_outputs)

    def opened(self, reply: dict[str, Any], need: int) -> None:
        """Note what came out of opening our side."""
        self.model = reply
        self.result.threads, n_ctx = reply["threads"], reply["n_ctx"]
        self.result.settings["n_ctx"] = n_ctx
        if "kernels" in reply:
            self.result.versions["pyspec kernels"] = reply["kernels"]
        if need > n_ctx:
            raise BenchError(f"this needs a context of {need} tokens, and the context has {n_ctx}")

    def open_peer(self, *, n_outputs: int = 64) -> None:
        """Open the peer as our side was opened."""
        if self.peer is not None:
            self.peer.ask(
                "open",
                path=str(self.settings.path),
                threads=self.result.threads,
                n_ctx=self.result.settings["n_ctx"],
                n_outputs=n_outputs,
            )

    def ids(self, n: int) -> list[int]:
        """n token ids of ordinary text."""
        found: list[int] = self.ours.ask("ids", text=FILLER, n=n)["ids"]
        return found

    def choose(self, kind: str, ids: list[int], fill: int = 0) -> None:
        """Let the peer try flash attention on and off on such work, and keep the faster."""
        if self.peer is not None:
            chosen = self.peer.ask("choose", kind=kind, ids=ids, fill=fill)
            self.result.settings["peer_flash_attention"] = chosen["flash_attention"]
            self.result.settings["peer_flash_attention_seconds"] = chosen["seconds"]

    def pair(self, turn: int, measure: Callable[[Worker], T]) -> tuple[T, T | None]:
        """Measure both sides one right after the other; who is first alternates with the turn. (ours, peer's)."""
        if self.peer is None:
            return measure(self.ours), None
        if turn % 2 == 0:
            ours = measure(self.ours)
            return ours, measure(self.peer)
        peers = measure(self.peer)
        return measure(self.ours), peers

    def seconds(
        self, label: str, measure: Callable[[Worker], dict[str, Any]]
    ) -> tuple[list[float], list[float]]:
        """`repeat` pairs of something whose reply has "seconds"."""
        ours: list[float] = []
        peers: list[float] = []
        for turn in range(self.settings.repeat):
            progress(f"{label}: pair {turn + 1} of {self.settings.repeat}")
            a, b = self.pair(turn, measure)
            ours.append(a["seconds"])
            if b is not None:
                peers.append(b["seconds"])
        return ours, peers


def asking(do: str, **arguments: Any) -> Callable[[Worker], dict[str, Any]]:
    """One request, to be put to whoever's turn it is."""
    return lambda worker: worker.ask(do, **arguments)


def note_versions(result: Result, side: str, about: dict[str, Any]) -> None:
    """Keep what a contestant says about itself."""
    for key, value in about.items():
        if key == "version":
            result.versions[about["name"]] = value
        elif key != "name":
            result.versions[f"{side} {key}"] = value


def progress(text: str) -> None:
    """One line on a terminal's stderr, overwritten by the next; "" clears it. Nothing elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)
