"""NumPy arrays on their way into C: rows of logits and masks, checked and passed without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspec.errors import OptionError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    #: {rows, (n_vocab + 31) // 32} words, bit t % 32 of word t // 32 set = token t is allowed; C-contiguous.
    Masks = NDArray[np.int32] | NDArray[np.uint32]


def float_rows(ffi: Any, rows: NDArray[np.float32], n_vocab: int) -> Any:
    """Pointer to rows of logits {..., n_vocab}; OptionError unless they are contiguous float32 of that width."""
    if rows.shape[-1] != n_vocab or rows.dtype.str != "<f4" or not rows.flags.c_contiguous:
        raise OptionError(
            f"logits are {rows.dtype} {rows.shape}, expected contiguous float32 rows of {n_vocab}"
        )
    return ffi.from_buffer("float[]", rows)


def mask_rows(ffi: Any, masks: Masks | None, n_rows: int, n_vocab: int) -> Any:
    """Pointer to the masks of at least n_rows rows (for one row, a mask alone will do), NULL for None."""
    if masks is None:
        return ffi.NULL
    shape = masks.shape if masks.ndim == 2 else (1, *masks.shape)
    n_words = (n_vocab + 31) // 32
    if (
        len(shape) != 2
        or shape[0] < n_rows
        or shape[1] != n_words
        or masks.dtype.str not in ("<i4", "<u4")
        or not masks.flags.c_contiguous
    ):
        raise OptionError(
            f"masks are {masks.dtype} {masks.shape}, expected contiguous int32 or uint32 ({n_rows}, {n_words}): a row of "
            f"bits for {n_vocab} tokens for each row of logits"
        )
    return ffi.from_buffer("uint32_t[]", masks)
