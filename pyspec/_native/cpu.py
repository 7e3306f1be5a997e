"""The check that runs before the library is loaded: is every instruction set it was compiled for on this CPU?

A library that uses an instruction the CPU does not have dies without a message, so it must not be loaded at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pyspec.errors import UnsupportedError

#: Read by tests from another place.
CPUINFO = Path("/proc/cpuinfo")


def cpu_flags(cpuinfo: Path | None = None) -> frozenset[str] | None:
    """The CPU's instruction sets in the kernel's names, or None when the system does not tell."""
    try:
        with (cpuinfo or CPUINFO).open(encoding="ascii", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() == "flags":
                    return frozenset(value.split())
    except OSError:
        pass
    return None


def refuse_foreign_cpu(required: Iterable[str], cpuinfo: Path | None = None) -> None:
    """Raise UnsupportedError, in one sentence, when the CPU lacks one of the `required` instruction sets."""
    flags = cpu_flags(cpuinfo)
    if flags is None:
        return
    missing = [name for name in required if name not in flags]
    if missing:
        raise UnsupportedError(
            f"this pyspec was built for a CPU with {', '.join(missing)}, which this CPU does not have; "
            "install it on this machine from its source folder (`pip install .`), or build for any x86-64-v2 CPU with "
            "`CMAKE_ARGS=-DPYSPEC_PORTABLE=ON pip install .`"
        )
