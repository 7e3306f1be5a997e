"""The core's log lines on their way to Python's `logging`, logger "pyspec"."""

from __future__ import annotations

from pyspec._native import lib

__all__ = ["drain_log"]

_LEVELS = {1: 10, 2: 20, 3: 30, 4: 40}  # pyspec_log_level to logging's levels
_LINE_BYTES = 4096


def drain_log() -> int:
    """Hand every waiting line of the core's log to `logging.getLogger("pyspec")`; returns how many. Any thread."""
    ffi, library = lib()
    level = ffi.new("pyspec_log_level *")
    text = ffi.new("char[]", _LINE_BYTES)
    count = 0
    while (length := library.pyspec_log_poll(level, text, _LINE_BYTES)) >= 0:
        import logging

        line = bytes(ffi.buffer(text, min(length, _LINE_BYTES - 1))).decode("utf-8", "replace")
        logging.getLogger("pyspec").log(_LEVELS.get(level[0], 20), "%s", line)
        count += 1
    return count
