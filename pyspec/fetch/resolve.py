"""From what a user typed to a file: a path, or a name in the manifest."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from pathlib import Path

from pyspec.fetch.cache import cache_dir, entry_path, format_bytes, is_cached
from pyspec.fetch.errors import LicenceError, ModelNotFoundError, OfflineError
from pyspec.fetch.fetcher import Progress, fetch_model
from pyspec.fetch.manifest import Manifest, ManifestEntry, load_manifest


def resolve_model(
    name_or_path: str | os.PathLike[str],
    *,
    offline: bool = False,
    accept_licence: bool | Callable[[ManifestEntry], bool] = False,
    progress: Progress | None = None,
    announce: Callable[[ManifestEntry], None] | None = None,
    manifest: Manifest | None = None,
    directory: Path | None = None,
) -> Path:
    """Path of the model: `name_or_path` itself when it is an existing file, else the manifest model of that name.

    A manifest model that is not in the cache is fetched. `offline` forbids that. `accept_licence` is True, or a function
    that asks; it only matters for models whose terms have to be accepted. `announce` is called once before a download
    begins (to show size and licence). `manifest` and `directory` replace pyspec's own list and cache directory.

    Raises ModelNotFoundError (one line, with close matches), OfflineError, LicenceError and what `fetch_model` raises.
    """
    text = os.fspath(name_or_path)
    path = Path(text).expanduser()
    if path.is_file():
        return path
    models = manifest if manifest is not None else load_manifest()
    entry = models.get(text)
    if entry is None:
        if path.exists():
            return path  # a directory or the like: the loader says what is wrong with it
        raise ModelNotFoundError(not_found_message(text, models))
    if is_cached(entry, directory):
        return entry_path(entry, directory)
    if offline:
        raise OfflineError(
            f"{entry.name} is not in the cache ({directory or cache_dir()}) and fetching is off; "
            f"`pyspec-cli fetch {entry.name}` downloads it ({format_bytes(entry.download_bytes)})"
        )
    if entry.needs_acceptance and not (accept_licence(entry) if callable(accept_licence) else accept_licence):
        raise LicenceError(
            f"{entry.name} comes under the {entry.licence} ({entry.licence_note}); "
            "read them and pass --accept-licence (Python: accept_licence=True) to fetch it"
        )
    if announce is not None:
        announce(entry)
    return fetch_model(entry, directory=directory, progress=progress)


def not_found_message(text: str, models: Manifest) -> str:
    """One helpful line for something that is neither a file nor a known name."""
    if looks_like_path(text):
        return f"no such file: {text}{_similar_file(text)}"
    typed = text.lower()
    close = [name for name in models if len(typed) >= 3 and (typed in name or name in typed)]
    close = close or difflib.get_close_matches(typed, models, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    return (
        f"unknown model {text!r}: {hint}known names are {', '.join(models)}; or give the path of a GGUF file"
    )


def looks_like_path(text: str) -> bool:
    """True for text that can only be meant as a path."""
    separators = {os.sep, os.altsep or os.sep}
    return text.lower().endswith(".gguf") or text.startswith(("~", ".")) or any(s in text for s in separators)


def _similar_file(text: str) -> str:
    path = Path(text).expanduser()
    try:
        names = [p.name for p in path.parent.iterdir() if p.suffix.lower() == ".gguf"]
    except OSError:
        return f" (the directory {path.parent} cannot be read)"
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.6)
    return f" (did you mean {path.with_name(close[0])}?)" if close else ""
