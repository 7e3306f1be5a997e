"""kernels: products of packed matrices by themselves, beside ggml's own and beside what the machine can do.

Both sides run in one native program, in turns, on the same matrix, columns and threads; ratios above 1 mean that pyspec is
faster. A matrix comes from memory every time (there are more copies of it than the caches hold), as the weights of a model
do, or with `warm` from the caches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .contest import progress
from .native_program import measure_roofline, packable_types, run_program
from .process import BenchError
from .result import Result
from .roofline import limit_ns

#: Matrices {in, out}: of a small model, and those of a layer of Qwen2.5 1.5B.
SHAPES = {
    "small": ((768, 2048), (2048, 768)),
    "qwen": ((1536, 256), (1536, 1536), (1536, 8960), (8960, 1536)),
}


@dataclass(frozen=True, slots=True)
class KernelSettings:
    """What the command line said. types (): all that are packed. threads 0: physical cores. repeat: pairs of turns."""

    types: tuple[str, ...] = ()
    columns: tuple[int, ...] = (1, 2, 4, 8, 16)
    shapes: str = "small"
    kernels: str = "auto"
    warm: bool = False
    threads: int = 0
    repeat: int = 7


def kernels(settings: KernelSettings) -> Result:
    """All types, shapes and numbers of columns. BenchError for a type that is not packed."""
    result = Result("kernels", "", unit="")
    known = packable_types(settings.kernels)
    for name in settings.types:
        if name not in known:
            raise BenchError(f"type {name!r} is unknown or not packed; packed types are {', '.join(known)}")
    progress("roofline")
    machine = measure_roofline(settings.kernels, settings.threads)
    result.threads, result.roofline = machine["threads"], machine
    result.versions["pyspec kernels"] = machine["kernels"]
    result.settings.update(shapes=settings.shapes, weights="in cache" if settings.warm else "from memory")
    for name in settings.types or known:
        for n_in, n_out in SHAPES[settings.shapes]:
            progress(f"kernels: {name} {n_in}x{n_out}")
            for line in _measure(settings, machine, name, n_in, n_out):
                _add(result, line)
    return result


def _measure(
    settings: KernelSettings, machine: dict[str, Any], name: str, n_in: int, n_out: int
) -> list[dict[str, Any]]:
    numbers = {
        "--in": n_in,
        "--out": n_out,
        "--threads": machine["threads"],
        "--pairs": settings.repeat,
        "--columns": ",".join(map(str, settings.columns)),
    }
    return run_program(
        "product",
        *("--type", name),
        *("--kernels", machine["kernels"]),
        *(text for option, value in numbers.items() for text in (option, str(value))),
        "--warm" if settings.warm else "--cold",
    )


def _add(result: Result, line: dict[str, Any]) -> None:
    """One line of the program. The key is "type in x out n", as in "Q4_K 768x2048 4"."""
    ours, ggml, columns = line["ours"], line["ggml"], line["columns"]
    key = f"{line['type']} {line['in']}x{line['out']} {columns}"
    limit = limit_ns(
        ours["bytes"] if line["cold"] else 0, line["in"] * line["out"] * columns, result.roofline
    )
    for side, numbers in ((result.pyspec, ours), (result.peer, ggml)):
        side[key] = {
            "us": numbers["ns"] / 1e3,
            "gb_s": numbers["gb_s"],
            "gmac_s": numbers["gmac_s"],
        }
    result.pyspec[key]["share"] = limit / ours["ns"]
    result.ratio[key] = line["ratio"]
