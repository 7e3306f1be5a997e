"""The user's cache directory: where model files live, how much room is left, and who may write now."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pyspec._user_cache import user_cache
from pyspec.fetch.errors import FetchError
from pyspec.fetch.manifest import ManifestEntry, load_manifest


def cache_dir() -> Path:
    """Directory of finished model files; not created here."""
    return user_cache("models")


def entry_path(entry: ManifestEntry, directory: Path | None = None) -> Path:
    """Where the finished file of this model lies or will lie."""
    return (directory if directory is not None else cache_dir()) / entry.file


def licence_path(model: Path) -> Path:
    """Where the licence text that came with a fetched model file lies (absent when its packages carry none)."""
    return model.with_name(model.name + ".licence.txt")


def is_cached(entry: ManifestEntry, directory: Path | None = None) -> bool:
    """True when the finished file is there. Its SHA-256 was checked before it got that name, so its size is enough."""
    path = entry_path(entry, directory)
    try:
        return path.is_file() and path.stat().st_size == entry.size
    except OSError:
        return False


def cached_path(name: str, directory: Path | None = None) -> Path | None:
    """Path of a manifest model if it has been fetched, else None (also for an unknown name). Never downloads."""
    entry = load_manifest().get(name)
    if entry is None or not is_cached(entry, directory):
        return None
    return entry_path(entry, directory)


def require_space(directory: Path, needed: int, what: str) -> None:
    """Raise FetchError when the file system of `directory` has less than `needed` bytes free."""
    import shutil

    free = shutil.disk_usage(directory).free
    if free < needed:
        raise FetchError(
            f"not enough disk space for {what}: {format_bytes(needed)} are needed in {directory}, "
            f"{format_bytes(free)} are free"
        )


def format_bytes(count: float) -> str:
    """12.3 MB; decimal units, as package indexes and disk vendors count."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.2f} GB"


@contextmanager
def exclusive_lock(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold `path` against other processes; `waiting` is called about five times a second while another one holds it.

    The operating system drops the lock when its holder dies, so nothing stale can remain; the empty file stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab") as handle:
        while not _try_lock(handle):
            waiting()
            time.sleep(0.2)
        try:
            yield
        finally:
            _unlock(handle)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: BinaryIO) -> bool:
        try:
            handle.seek(0)
            msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(handle: BinaryIO) -> None:
        handle.seek(0)
        msvcrt.locking(handle.fileno(), msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(handle: BinaryIO) -> bool:
        try:
            fcntl.flock(handle.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(handle: BinaryIO) -> None:
        fcntl.flock(handle.fileno(), fcntl.LOCK_UN)
