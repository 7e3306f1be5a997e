"""One call at a time: the lock, the cancel token of the running call, and who may call at all."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspec.errors import BusyError, ClosedError, ForkError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspec.core.context import CancelToken


class Calls:
    """Gate of an LLM. new_token() makes a CancelToken; every call gets a fresh one, so a cancel cannot
    outlive its call.
    """

    def __init__(self, what: str, new_token: Callable[[], CancelToken]) -> None:
        self._what = what
        self._new_token = new_token
        self._lock = threading.Lock()
        self._running: CancelToken | None = None
        self._pid = os.getpid()
        self.closed = False

    @property
    def forked(self) -> bool:
        """Was the LLM made in another process?"""
        return os.getpid() != self._pid

    def check(self) -> None:
        """Raise ForkError or ClosedError when the LLM is of no use any more."""
        if self.forked:
            raise ForkError(f"{self._what} was made before fork(); make a new LLM in the child process")
        if self.closed:
            raise ClosedError(f"{self._what} is closed")

    @contextmanager
    def enter(self) -> Iterator[CancelToken]:
        """Be the running call; BusyError when there is one already."""
        self.check()
        if not self._lock.acquire(blocking=False):
            raise BusyError(
                f"{self._what} is busy with another call or an unfinished stream; wait for it, cancel() it "
                "or close the stream, or make an LLM for each thread"
            )
        try:
            self.check()
            self._running = token = self._new_token()
            yield token
        finally:
            self._running = None
            self._lock.release()

    def cancel(self) -> None:
        """Ask the running call, if any, to end. Any thread."""
        token = self._running
        if token is not None:
            token.cancel()

    def shut(self, end_streams: Callable[[], None]) -> None:
        """Refuse new calls, end the running one and wait for it. end_streams() closes suspended streams."""
        self.closed = True
        if self.forked:
            return
        self.cancel()
        while True:
            end_streams()  # again and again: one may be between two chunks in another thread
            if self._lock.acquire(timeout=0.02):
                self._lock.release()
                return
