"""One opened model as the verbs use it: load with progress, answer with streaming, stop on Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from pyspec.cli.common import Runtime, find_model, show_log

if TYPE_CHECKING:
    from pyspec.llm.results import Chunk, GenerationResult


def open_llm(
    runtime: Runtime,
    model: str,
    draft: str | None,
    *,
    offline: bool,
    accept_licence: bool,
    template: str | None,
    **options: Any,
) -> Any:
    """Find both files and load them. options go to LLM as they are; None values are left out."""
    show_log(runtime)
    path = find_model(model, offline=offline, accept_licence=accept_licence)
    chosen = {name: value for name, value in options.items() if value is not None}
    if draft is not None:
        chosen["draft"] = find_model(draft, offline=offline, accept_licence=accept_licence)
    if template is not None:
        chosen["template"] = Path(template) if Path(template).is_file() else template
    with progress_line(f"loading {path.name}") as progress:
        return runtime.llm_factory(path, progress=progress, **chosen)


def has_template(llm: Any, template: str | None) -> bool:
    """Whether prompts can go through a chat template."""
    return template is not None or llm.model.meta_str("tokenizer.chat_template") is not None


def consume(chunks: Iterable[Chunk], show: Callable[[str], object]) -> GenerationResult:
    """Hand the text of every chunk to `show`; return the result that the last one carries."""
    result = None
    for chunk in chunks:
        if chunk.text:
            show(chunk.text)
        if chunk.result is not None:
            result = chunk.result
    if result is None:
        raise RuntimeError("the answer ended without a result")
    return result


@contextmanager
def interrupt_cancels(cancel: Callable[[], object]) -> Iterator[None]:
    """Within the block, Ctrl-C calls `cancel` (the answer then ends by itself); a second one interrupts as usual.

    `cancel` reaches only a call that runs, and the first Ctrl-C may come before that (while a long prompt is turned into
    tokens). So it is repeated from a thread until the block ends.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ended = threading.Event()
    repeater: threading.Thread | None = None

    def keep_cancelling() -> None:
        while not ended.wait(0.05):
            cancel()

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal repeater
        if repeater is not None:
            raise KeyboardInterrupt
        repeater = threading.Thread(target=keep_cancelling, name="pyspec-cancel", daemon=True)
        cancel()
        repeater.start()

    previous = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        ended.set()
        if repeater is not None:
            repeater.join()  # it must not cancel the next call


@contextmanager
def progress_line(what: str) -> Iterator[Callable[[float], None]]:
    """A line on a terminal's stderr while something slow is done (0..1 of it); gone afterwards."""
    begin = time.monotonic()
    shown = False

    def progress(fraction: float) -> None:
        nonlocal shown
        if sys.stderr.isatty() and time.monotonic() - begin > 0.4:
            shown = True
            print(f"\r\x1b[K{what}: {100 * fraction:.0f} %", end="", file=sys.stderr, flush=True)

    try:
        yield progress
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
