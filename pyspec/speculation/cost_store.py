"""Cost tables kept between processes: one small JSON file for each model file, machine and way of running.

Lost or unreadable entries cost a short measurement, nothing else; so nothing here raises.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspec.speculation.cost_table import CostTable

log = logging.getLogger("pyspec")

#: Bytes of the model file that go into its identity, from its beginning and its end: reading all of it would cost
#: more than measuring.
SAMPLE = 65536


class CostStore:
    """The file of one combination. directory: where the files are; it is made when something is saved.

    identity: what else T(n) depends on (threads, kernels, cache types, version), as plain data.
    """

    def __init__(self, directory: Path, model: Path, identity: dict[str, Any]) -> None:
        self.path: Path | None = None
        with suppress(OSError):
            self.path = directory / f"{_key(model, identity)}.json"
        self._saved: dict[int, float] = {}

    def load(self) -> CostTable:
        """The stored table, or an empty one."""
        times: dict[int, float] = {}
        if self.path is not None:
            try:
                data = json.loads(self.path.read_text(encoding="utf-8"))
                times = {int(n): float(ms) for n, ms in data["ms"].items()}
                table = CostTable(times)
            except FileNotFoundError:
                pass
            except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
                log.info("measuring again: %s is not a cost table (%s)", self.path, error)
            else:
                self._saved = times
                return table
        return CostTable()

    def save(self, table: CostTable) -> None:
        """Keep a table that has changed noticeably since it was loaded or saved."""
        times = table.times()
        if self.path is None or not table.measured or not _changed(self._saved, times):
            return
        temporary = self.path.with_suffix(f".{os.getpid()}.tmp")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"ms": {str(n): round(ms, 4) for n, ms in times.items()}})
            temporary.write_text(text + "\n", encoding="utf-8")
            temporary.replace(self.path)
        except OSError as error:
            log.info("the cost table is not kept: %s", error)
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            return
        self._saved = times


def _changed(old: dict[int, float], new: dict[int, float]) -> bool:
    return old.keys() != new.keys() or any(abs(new[n] / old[n] - 1) > 0.1 for n in new)


def _key(model: Path, identity: dict[str, Any]) -> str:
    digest = hashlib.sha256()
    with model.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        for at in (0, max(0, size - SAMPLE)):
            file.seek(at)
            digest.update(file.read(SAMPLE))
    about = {"size": size, "machine": platform.node(), "cpu": _processor(), **identity}
    digest.update(json.dumps(about, sort_keys=True, default=str).encode())
    return digest.hexdigest()[:32]


def _processor() -> str:
    """The processor's name; T(n) of a copied home directory is not that of the new machine."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
