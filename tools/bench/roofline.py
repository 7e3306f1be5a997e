"""How close T(n) comes to what the machine can do: the time that reading the weights once and multiplying them n times
takes at least, over the time that was measured.

limit(n) = max(bytes read / bandwidth, n * weights multiplied / dot-product rate). Only matrices count; the cache, norms and
attention are left out, so the limit is one that no decode can beat. Weights of every type are counted at the rate of 8-bit
numbers, the fastest there is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .native_program import measure_roofline
from .process import BenchError
from .result import Result


@dataclass(frozen=True, slots=True)
class Work:
    """What one decode does to the weights: bytes it reads, and multiply-accumulates for each token."""

    bytes: int
    macs: int


def limit_ns(bytes_read: float, macs: float, machine: dict[str, Any]) -> float:
    """Nanoseconds that this takes at least, given a measured roofline."""
    read_gb_s, dot_gmac_s = float(machine["read_gb_s"]), float(machine["dot_gmac_s"])
    return max(bytes_read / read_gb_s, macs / dot_gmac_s)


def multiplied_matrices(
    tensors: Iterable[dict[str, Any]], n_expert: int, n_expert_used: int
) -> list[dict[str, Any]]:
    """The matrices of a tensor table (Model.tensors) that every token meets: "type", "bytes" of the file, "macs".

    A token table counts when it is also the output matrix, once; else its rows are only looked up. Of a stack of experts
    those of one token count: tokens decoded together may share them, so this is the least.
    """
    found = []
    tensors = list(tensors)
    tied = all(tensor["name"] != "output.weight" for tensor in tensors)
    for tensor in tensors:
        shape = tensor["shape"]
        if len(shape) < 2 or (tensor["name"] == "token_embd.weight" and not tied):
            continue
        macs, size = 1, tensor["bytes"]
        for side in shape:
            macs *= side
        if len(shape) > 2 and n_expert > 0:
            macs, size = (amount * n_expert_used // n_expert for amount in (macs, size))
        found.append({"type": tensor["type"].upper(), "bytes": size, "macs": macs})
    return found


def decode_work(matrices: Iterable[dict[str, Any]]) -> Work:
    """Sums over `multiplied_matrices`. Bytes are those of the file: the packed form is up to 3 % larger, which is ours to
    answer for.
    """
    matrices = list(matrices)
    return Work(sum(m["bytes"] for m in matrices), sum(m["macs"] for m in matrices))


def add_roofline(result: Result, model: dict[str, Any]) -> None:
    """Measure the machine and put beside each T(n) (milliseconds, by n as text) its limit and the share that was reached.

    model: "matrices" and "kernels" of the opened model. Without the native program there is a note instead.
    """
    try:
        machine = measure_roofline(model["kernels"], result.threads)
        work = decode_work(model["matrices"])
    except BenchError as error:
        result.notes.append(f"No roofline: {error}.")
        return
    limits = {n: limit_ns(work.bytes, int(n) * work.macs, machine) / 1e6 for n in result.pyspec}
    result.roofline = {
        **machine,
        "bytes": work.bytes,
        "macs": work.macs,
        "limit_ms": limits,
        "share": {n: limit / result.pyspec[n] for n, limit in limits.items()},
    }
