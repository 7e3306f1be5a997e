"""The process of one contestant: JSON requests on stdin, one line each, JSON replies on stdout.

{"do": "decode", ...arguments} is answered by {"ok": ...} or {"error": "sentence"}. It ends when stdin does.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

from .contestant import Contestant

_PR_SET_PDEATHSIG = 1

#: Name on the command line to module and class.
CONTESTANTS = {
    "pyspec": ("pyspec_runner", "PyspecContestant"),
    "llama-cpp-python": ("peer_llama", "LlamaContestant"),
}


def make(name: str) -> Contestant:
    """A contestant; importing what it needs may fail."""
    from importlib import import_module

    module, kind = CONTESTANTS[name]
    contestant: Contestant = getattr(import_module(f".{module}", __package__), kind)()
    return contestant


def main(name: str) -> None:
    """Serve requests until stdin closes."""
    # A stopped process does not notice that its parent is gone; the kernel tells it.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # nothing a library prints gets among the replies
    contestant: Contestant | None = None
    for line in sys.stdin:
        request = json.loads(line)
        command = request.pop("do")
        try:
            if contestant is None:
                contestant = make(name)
            if command not in contestant.COMMANDS:
                raise ValueError(f"{name} has no command {command!r}")
            reply = {"ok": getattr(contestant, command)(**request)}
        except Exception as error:
            reply = {"error": str(error) or type(error).__name__, "kind": type(error).__name__}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
