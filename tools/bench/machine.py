"""What has to stand beside every number: the processor, the files, the versions."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from pathlib import Path
from typing import Any

#: Instruction sets that decide how fast products of small integers are, in the kernel's names.
_FEATURES = re.compile(r"sse4_2|avx\w*|fma|f16c|amx\w*|gfni|asimd\w*|sve\w*|i8mm|bf16")


def machine(cpuinfo: Path = Path("/proc/cpuinfo")) -> dict[str, Any]:
    """Processor name, instruction sets, processors this process may use, kernel, Python."""
    name, flags = platform.machine(), ""
    try:
        for line in cpuinfo.read_text(encoding="ascii", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                name = value.strip()
            elif key.strip() in ("flags", "Features"):
                flags = value
    except OSError:
        pass
    return {
        "cpu": name,
        "cpu_features": [flag for flag in flags.split() if _FEATURES.fullmatch(flag)],
        "cpus": len(os.sched_getaffinity(0)),
        "load_average": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def file_record(path: Path) -> dict[str, Any]:
    """Name, size and SHA-256 of a file. Reading it also brings it into the page cache."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": digest.hexdigest()}
