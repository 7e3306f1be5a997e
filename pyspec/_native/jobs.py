"""Long calls into the core: cancellable, with progress, and with a Python that stays responsive.

The core never calls Python. A call that may take longer than 50 ms runs on a worker thread while the calling thread
waits in slices, so that Ctrl-C is seen at once; cancelling sets a flag that the core looks at.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pyspec._native import check, lib, status_error
from pyspec._native.log import drain_log

__all__ = ["CancelToken", "ShortCalls", "run_cancellable"]

#: Seconds between two looks at progress and signals.
SLICE = 0.02


class CancelToken:
    """Cancels the calls it is handed to, from any thread, now and later.

    token = CancelToken()
    threading.Timer(1.0, token.cancel).start()
    context.decode(tokens, cancel=token)     # raises CancelledError after about a second
    """

    __slots__ = ("_cancelled", "_jobs", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._jobs: list[_Job] = []

    @property
    def cancelled(self) -> bool:
        """True once `cancel` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """Ask the calls that hold this token to stop; they raise CancelledError within 0.25 s. Any thread, any time."""
        with self._lock:
            self._cancelled = True
            for job in self._jobs:
                job.cancel()

    def _attach(self, job: _Job) -> None:
        with self._lock:
            self._jobs.append(job)
            if self._cancelled:
                job.cancel()

    def _detach(self, job: _Job) -> None:
        with self._lock:
            self._jobs.remove(job)


class _Job:
    """Owner of one pyspec_job."""

    def __init__(self) -> None:
        ffi, self._lib = lib()
        out = ffi.new("pyspec_job **")
        check(self._lib.pyspec_job_new(out))
        self.handle = ffi.gc(out[0], self._lib.pyspec_job_free)
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True
        self._lib.pyspec_job_cancel(self.handle)

    def progress(self) -> float:
        return float(self._lib.pyspec_job_progress(self.handle))


class ShortCalls:
    """Calls known to be short (below 50 ms), one at a time: they run on the calling thread, `cancel` works, an interrupt is
    seen after the call, and the log stays where it is. Keeps its job from call to call.
    """

    __slots__ = ("_job",)

    def __init__(self) -> None:
        self._job: _Job | None = None

    def run(self, function: Callable[..., int], *args: Any, cancel: CancelToken | None = None) -> None:
        """Run `function(*args, job)`, a C function that returns a status, and raise its error if it fails."""
        job, self._job = self._job or _Job(), None  # taken out: a call from another thread must not share it
        if cancel is not None:
            cancel._attach(job)
        try:
            check(function(*args, job.handle))
        finally:
            if cancel is not None:
                cancel._detach(job)
            if not job.cancelled:
                self._job = job


def run_cancellable(
    function: Callable[..., int],
    *args: Any,
    cancel: CancelToken | None = None,
    progress: Callable[[float], None] | None = None,
) -> None:
    """Run `function(*args, job)`, a C function that returns a status, and raise its error if it fails.

    The function runs on a worker thread; this thread waits, reports the fraction done to `progress`, and cancels when
    interrupted (KeyboardInterrupt), when `progress` raises, or when `cancel` is cancelled. It waits for the worker
    to end, so the arguments are free to use again afterwards. An interrupt that comes when the work is all but done is
    raised although the work was done: callers look at their out arguments in a `finally`. May be called from any thread.
    """
    job = _Job()
    if cancel is not None:
        cancel._attach(job)
    try:
        _run_on_worker(function, args, job, progress)
    finally:
        if cancel is not None:
            cancel._detach(job)
        drain_log()


def _run_on_worker(
    function: Callable[..., int],
    args: tuple[Any, ...],
    job: _Job,
    progress: Callable[[float], None] | None,
) -> None:
    call = _Call(function, args, job)
    try:
        try:
            threading.Thread(target=call.run, name="pyspec-call", daemon=True).start()
            while not call.done.wait(SLICE):
                if progress is not None:
                    progress(job.progress())
        except BaseException:
            job.cancel()
            raise
    finally:
        # Twice, because a further interrupt can fall on any step of the way out; the second costs nothing when the first
        # was not disturbed.
        try:
            call.leave()
        finally:
            call.leave()
    if call.failure is not None:
        raise call.failure
    if progress is not None:
        progress(1.0)


class _Call:
    """One call on its way through a worker thread."""

    def __init__(self, function: Callable[..., int], args: tuple[Any, ...], job: _Job) -> None:
        self.function = function
        self.args = args
        self.job = job
        self.failure: BaseException | None = None
        self.done = threading.Event()
        self._gate = threading.Lock()
        self._begun = False
        self._left = False

    def run(self) -> None:
        with self._gate:
            if self._left:
                return
            self._begun = True
        try:
            status = self.function(*self.args, self.job.handle)
            if status:
                self.failure = status_error(status)  # made here: the message belongs to this thread
        except BaseException as error:
            self.failure = error  # raised by the caller
        finally:
            self.done.set()

    def leave(self) -> None:
        """Come back only when the function does not run and never will: it uses memory the caller is about to free."""
        if self.done.is_set():
            return
        self.job.cancel()
        with self._gate:
            self._left = True
            if not self._begun:
                return
        while not self.done.is_set():
            try:
                self.done.wait()
            except KeyboardInterrupt:
                continue  # already on the way out
