"""The binding's own machinery: statuses, long calls, the log. C functions are played by Python ones."""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pyspec import errors
from pyspec._native import check, lib
from pyspec._native.jobs import CancelToken, ShortCalls, run_cancellable

OPTION = 3
CANCELLED = 6


def wait_for_cancel(job: Any) -> int:
    """Plays a long C call: ends with CANCELLED once the job is cancelled, with an error after 10 s."""
    _, library = lib()
    for _ in range(1000):
        if library.pyspec_job_cancelled(job):
            return CANCELLED
        time.sleep(0.01)
    return OPTION


def failing_call(name: bytes, job: Any) -> int:
    """A real C call that fails: loads a model that is not there."""
    ffi, library = lib()
    out = ffi.new("pyspec_model **")
    params = ffi.new("pyspec_model_params *")
    library.pyspec_model_params_default(params, ffi.sizeof("pyspec_model_params"))
    return int(library.pyspec_model_load(b"/nowhere/" + name, params, job, out))


def test_every_status_has_its_error(interface: str) -> None:
    statuses = dict(
        re.findall(r"\bPYSPEC_([A-Z_]+)\s*=\s*(\d+),\s*/\*", interface.split("} pyspec_status;")[0])
    )
    assert len(statuses) == 12
    for name, value in statuses.items():
        words = "".join(word.capitalize() for word in name.split("_"))
        assert errors.status_to_error[int(value)].__name__ == words + "Error"


def runner(inline: bool) -> Callable[..., None]:
    return ShortCalls().run if inline else run_cancellable


@pytest.mark.parametrize("inline", [True, False])
def test_message_crosses_threads(inline: bool) -> None:
    """The message belongs to the thread that failed; the caller gets it all the same."""
    name = f"none-{inline}.gguf"
    with pytest.raises(errors.FileFormatError, match=name):
        runner(inline)(failing_call, name.encode())


def test_success_returns_nothing_and_passes_arguments() -> None:
    seen = []

    def call(a: int, b: str, job: Any) -> int:
        seen.append((a, b, threading.current_thread() is threading.main_thread()))
        return 0

    run_cancellable(call, 1, "x")
    ShortCalls().run(call, 2, "y")
    assert seen == [(1, "x", False), (2, "y", True)]


def test_unknown_status_is_internal() -> None:
    with pytest.raises(errors.InternalError):
        check(77)


@pytest.mark.parametrize("inline", [True, False])
def test_token_cancels(inline: bool) -> None:
    token = CancelToken()
    run = runner(inline)
    threading.Timer(0.1, token.cancel).start()
    start = time.monotonic()
    with pytest.raises(errors.CancelledError):
        run(wait_for_cancel, cancel=token)
    assert time.monotonic() - start < 2
    assert token.cancelled
    with pytest.raises(errors.CancelledError):  # a cancelled token stays cancelled
        run(wait_for_cancel, cancel=token)
    threading.Timer(0.1, (fresh := CancelToken()).cancel).start()
    with pytest.raises(errors.CancelledError):  # and says nothing about calls without it: this one waits
        run(wait_for_cancel, cancel=fresh)
    assert time.monotonic() - start > 0.2


def test_interrupt_cancels_and_waits() -> None:
    """KeyboardInterrupt in the main thread: the call is cancelled, has ended, and the interrupt goes on."""
    ended = threading.Event()

    def call(job: Any) -> int:
        status = wait_for_cancel(job)
        time.sleep(0.1)
        ended.set()
        return status

    interrupt = functools.partial(signal.pthread_kill, threading.get_ident(), signal.SIGINT)
    threading.Timer(0.1, interrupt).start()
    threading.Timer(0.15, interrupt).start()  # an impatient second one while waiting
    start = time.monotonic()
    interrupted = had_ended = False
    try:
        run_cancellable(call)
    except KeyboardInterrupt:
        interrupted = True
        had_ended = ended.is_set()
    with contextlib.suppress(KeyboardInterrupt):
        time.sleep(0.3)  # the second one, should it come late
    assert interrupted
    assert had_ended
    assert time.monotonic() - start < 3


def test_from_another_thread() -> None:
    caught: list[BaseException] = []

    def work() -> None:
        try:
            run_cancellable(failing_call, b"none.gguf")
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert [type(error) for error in caught] == [errors.FileFormatError]


def test_progress_is_reported_and_may_stop_the_call() -> None:
    seen: list[float] = []

    def progress(fraction: float) -> None:
        seen.append(fraction)
        if len(seen) == 3:
            raise RuntimeError("enough")

    start = time.monotonic()
    with pytest.raises(RuntimeError, match="enough"):
        run_cancellable(wait_for_cancel, progress=progress)
    assert time.monotonic() - start < 3
    assert all(0 <= fraction <= 1 for fraction in seen)


def test_log_reaches_logging(caplog: pytest.LogCaptureFixture) -> None:
    """drain_log empties the ring; levels are logging's."""
    from pyspec._native import log

    class Library:
        def __init__(self) -> None:
            self.lines = [(2, b"loaded \xff"), (3, b"careful")]

        def pyspec_log_poll(self, level: Any, text: Any, capacity: int) -> int:
            if not self.lines:
                return -1
            level[0], line = self.lines.pop(0)
            ffi.memmove(text, line, len(line))
            return len(line)

    ffi, _ = lib()
    with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.DEBUG, logger="pyspec"):
        patch.setattr(log, "lib", lambda: (ffi, Library()))
        assert log.drain_log() == 2
    assert [(r.levelname, r.message) for r in caplog.records] == [
        ("INFO", "loaded \ufffd"),
        ("WARNING", "careful"),
    ]


def test_template_error_is_one_line() -> None:
    assert str(errors.TemplateError(3, "no such filter")) == "chat template, line 3: no such filter"
    assert str(errors.TemplateError(None, "broken")) == "chat template: broken"
