"""Numbers read off raw rows of logits, before any bias, penalty or filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspec._native import check, lib
from pyspec.core.rows import float_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pyspec.core.context import Context

__all__ = ["draft_choice", "logprobs", "logprobs_array"]


def logprobs(context: Context, i: int, token: int, n_top: int = 0) -> tuple[float, list[tuple[int, float]]]:
    """Log-softmax of the raw logits of row i: the value of `token`, and the n_top best with theirs (ties: lowest id)."""
    return _logprobs(context.logits_ptr(i), context.n_vocab, token, n_top)


def logprobs_array(
    logits: NDArray[np.float32], token: int, n_top: int = 0
) -> tuple[float, list[tuple[int, float]]]:
    """`logprobs` on a row of logits."""
    return _logprobs(float_rows(lib()[0], logits, logits.shape[-1]), logits.shape[-1], token, n_top)


def _logprobs(row: Any, n_vocab: int, token: int, n_top: int) -> tuple[float, list[tuple[int, float]]]:
    ffi, library = lib()
    value = ffi.new("float *")
    tokens, values = ffi.new("int32_t[]", max(n_top, 1)), ffi.new("float[]", max(n_top, 1))
    check(library.pyspec_logprobs(row, n_vocab, token, value, n_top, tokens, values))
    return float(value[0]), [(int(tokens[j]), float(values[j])) for j in range(n_top)]


def draft_choice(context: Context, i: int, n_allowed: int, n_best: int = 10) -> tuple[int, float]:
    """A drafter's greedy choice on row i among ids below n_allowed, and its share in the softmax of the n_best logits."""
    ffi, library = lib()
    token, probability = ffi.new("int32_t *"), ffi.new("float *")
    check(
        library.pyspec_draft_choice(
            context.logits_ptr(i),
            context.logits_maxima_ptr(i),
            context.n_vocab,
            n_allowed,
            n_best,
            token,
            probability,
        )
    )
    return int(token[0]), float(probability[0])
