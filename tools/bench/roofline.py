"""How close T(n) comes to what the machine can do: the time that reading the weights once and multiplying them n times
takes at least, over the time that was measured.

limit(n) = max(bytes read / bandwidth, n * weights multiplied / dot-product rate). Only matrices count; the cache, norms and
attention are left out, so the limit is one that no decode can beat. Weights of every type are counted at the rate of 8-bit
numbers, the fastest there is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from .native_program import measure_roofline, packable_types
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
    """The matrices of a tensor table (Model.tensors) that every token meets: "type", "bytes" of the file, "macs", "stack".

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
        stack = len(shape) > 2 and n_expert > 0
        if stack:
            macs, size = (amount * n_expert_used // n_expert for amount in (macs, size))
        found.append({"type": tensor["type"].upper(), "bytes": size, "macs": macs, "stack": stack})
    return found


def decode_work(matrices: Iterable[dict[str, Any]], packed_bytes: int, packable: Collection[str]) -> Work:
    """Sums over `multiplied_matrices`. packed_bytes: of all packed matrices of the model; 0: they are used as they are.

    packable: types that are packed; stacks never are.
    """
    matrices = list(matrices)
    plain = [m for m in matrices if packed_bytes == 0 or m["stack"] or m["type"] not in packable]
    return Work(packed_bytes + sum(m["bytes"] for m in plain), sum(m["macs"] for m in matrices))


def add_roofline(result: Result, model: dict[str, Any]) -> None:
    """Measure the machine and put beside each T(n) (milliseconds, by n as text) its limit and the share that was reached.

    model: "matrices", "packed_bytes" and "kernels" of the opened model. Without the native program there is a note instead.
    """
    try:
        machine = measure_roofline(model["kernels"], result.threads)
        work = decode_work(model["matrices"], model["packed_bytes"], packable_types(model["kernels"]))
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
