"""load: what a program pays before the first token, in a fresh process each time.

import_s: importing the package and its shared library. load_s: from a path to a model ready to decode. first_token_s: from the
same start as load_s to the first token of a short prompt, tokenising included; pyspec, which opens what it needs when it needs
it, imports its tokenizer library in this time. rss_mib: resident memory then, which counts pages of the
mapped file; anonymous_mib: the part that belongs to no file. The file is in the page cache.
"""

from __future__ import annotations

from typing import Any

from .contest import Settings, note_versions, progress
from .process import Worker
from .result import Result

PROMPT = "The harbour bridge was closed on Tuesday morning because"
KEYS = ("import_s", "load_s", "first_token_s", "rss_mib", "anonymous_mib")


def load(settings: Settings) -> Result:
    """Pairs of fresh processes."""
    result = Result("load", settings.model, unit="seconds, MiB")
    threads, n_ctx = settings.threads, settings.n_ctx

    def fresh(name: str, **options: Any) -> dict[str, Any]:
        with Worker(name) as worker:
            note_versions(result, "pyspec" if name == "pyspec" else "peer", worker.ask("about"))
            return worker.ask(
                "load", path=str(settings.path), threads=threads, n_ctx=n_ctx, text=PROMPT, **options
            )

    first = fresh("pyspec")  # warm-up, and it says what the defaults came to
    threads = result.threads = first["threads"]
    n_ctx = first["n_ctx"]
    result.settings.update(n_ctx=n_ctx)
    options: dict[str, Any] = {}
    if settings.peer:
        fresh(settings.peer)
        tried = {flash: fresh(settings.peer, flash=flash)["first_token_s"] for flash in (True, False)}
        options["flash"] = tried[True] <= tried[False]
        result.settings["peer_flash_attention"] = options["flash"]
    ours: list[dict[str, Any]] = []
    peers: list[dict[str, Any]] = []
    for turn in range(settings.repeat):
        progress(f"load: pair {turn + 1} of {settings.repeat}")
        sides = [("pyspec", ours)] + ([(settings.peer, peers)] if settings.peer else [])
        for name, found in sides if turn % 2 == 0 else reversed(sides):
            found.append(fresh(name, **(options if found is peers else {})))
    for key in KEYS:
        result.add(key, [run[key] for run in ours], [run[key] for run in peers], rates=False)
    result.publish()
    return result
