"""The sampler: filters, keyed noise, penalties history; and functions on rows of logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspec._native import check, lib
from pyspec.core.context import Context
from pyspec.core.model import Model
from pyspec.errors import ClosedError, OptionError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Sampler", "SamplingParams", "draft_choice", "logprobs", "logprobs_array"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are chosen. Filters apply in this order: logit bias, penalties, top_k, typical_p, top_p, min_p, temperature.

    Attributes:
        temperature: 0 = always the most likely token.
        top_k: keep the k best; 0 = off.
        top_p: keep the best tokens up to this probability sum; 1 = off.
        min_p: keep tokens at least this fraction of the best one's probability; 0 = off.
        typical_p: locally typical sampling; 1 = off.
        repeat_penalty, frequency_penalty, presence_penalty: 1, 0, 0 = off.
        penalty_last_n: how many tokens penalties look back; -1 = all, 0 = off.
        seed: key of the noise. None = 0 here; `LLM` draws a fresh one for each call and reports it.
        logit_bias: added to the logits of these tokens; -inf forbids one.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    typical_p: float = 1.0
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_last_n: int = 64
    seed: int | None = None
    logit_bias: Mapping[int, float] | None = None


class Sampler:
    """Chooses tokens for rows of logits. Choosing changes nothing; `advance` commits a token.

    The noise of a choice is keyed by (seed, number of tokens emitted so far, token id), so the same logits at the same
    place give the same token however many rows were decoded together. One thread at a time.
    """

    def __init__(self, params: SamplingParams, n_vocab: int, *, _handle: Any = None) -> None:
        self.params = params
        self.n_vocab = n_vocab
        self._ffi, self._lib = ffi, library = lib()
        if _handle is None:
            _handle = self._new()
        self._handle: Any = ffi.gc(_handle, library.pyspec_sampler_free)
        self._token = ffi.new("int32_t *")
        self._n_out = ffi.new("int32_t *")
        self._n_accepted = ffi.new("int32_t *")

    def _new(self) -> Any:
        ffi, library, params = self._ffi, self._lib, self.params
        c = ffi.new("pyspec_sampler_params *")
        library.pyspec_sampler_params_default(c, ffi.sizeof("pyspec_sampler_params"))
        bias = dict(params.logit_bias or {})
        try:
            for name in (
                "temperature", "top_k", "top_p", "min_p", "typical_p",
                "repeat_penalty", "frequency_penalty", "presence_penalty", "penalty_last_n",
            ):  # fmt: skip
                try:
                    setattr(c, name, getattr(params, name))
                except (TypeError, OverflowError) as error:
                    raise OptionError(f"{name} is {getattr(params, name)!r}: {error}") from None
            c.seed = (params.seed or 0) & 0xFFFFFFFFFFFFFFFF
            keep_tokens = ffi.new("int32_t[]", list(bias))
            keep_values = ffi.new("float[]", list(bias.values()))
        except (TypeError, OverflowError) as error:
            raise OptionError(f"seed or logit_bias: {error}") from None
        c.n_logit_bias = len(bias)
        c.logit_bias_token, c.logit_bias_value = keep_tokens, keep_values
        out = ffi.new("pyspec_sampler **")
        check(library.pyspec_sampler_new(c, self.n_vocab, out))
        return out[0]

    @property
    def handle(self) -> Any:
        """The cffi handle; raises ClosedError."""
        if self._handle is None:
            raise ClosedError("this sampler has been closed")
        return self._handle

    def close(self) -> None:
        """Free it."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._ffi.release(handle)

    def sample(self, context: Context, i: int = 0) -> int:
        """The token for output row i of the context's last decode. Changes nothing."""
        check(self._lib.pyspec_sampler_sample(self.handle, context.logits_ptr(i), self._token))
        return int(self._token[0])

    def sample_array(self, logits: NDArray[np.float32]) -> int:
        """The token for a row of logits {n_vocab}."""
        check(self._lib.pyspec_sampler_sample(self.handle, self._row(logits), self._token))
        return int(self._token[0])

    def advance(self, token: int, prompt: bool = False) -> None:
        """A token was emitted (or, with `prompt`, belongs to the prompt): the history grows."""
        check(self._lib.pyspec_sampler_advance(self.handle, token, prompt))

    def rollback(self, n: int) -> None:
        """Undo the last n advances exactly. OptionError, and no change, when fewer are known."""
        check(self._lib.pyspec_sampler_rollback(self.handle, n))

    def can_rollback(self, n: int) -> bool:
        """Would `rollback(n)` succeed?"""
        return bool(self._lib.pyspec_sampler_can_rollback(self.handle, n))

    def clone(self) -> Sampler:
        """An independent sampler in the same state."""
        out = self._ffi.new("pyspec_sampler **")
        check(self._lib.pyspec_sampler_clone(self.handle, out))
        return Sampler(self.params, self.n_vocab, _handle=out[0])

    def restore(self, other: Sampler) -> None:
        """Become equal to a clone taken earlier."""
        check(self._lib.pyspec_sampler_restore(self.handle, other.handle))

    def reset(self) -> None:
        """Empty history, index 0."""
        check(self._lib.pyspec_sampler_reset(self.handle))

    @property
    def n_history(self) -> int:
        """Number of advances, prompt tokens included."""
        return int(self._lib.pyspec_sampler_n_history(self.handle))

    @property
    def index(self) -> int:
        """Logical index of the next emitted token."""
        return int(self._lib.pyspec_sampler_index(self.handle))

    def candidates(self, context: Context, i: int = 0, cap: int = 64) -> list[tuple[int, float]]:
        """Tokens that survive the filters on row i with their probabilities, best first, at most `cap`."""
        return self._candidates(context.logits_ptr(i), cap)

    def candidates_array(self, logits: NDArray[np.float32], cap: int = 64) -> list[tuple[int, float]]:
        """`candidates` on a row of logits {n_vocab}."""
        return self._candidates(self._row(logits), cap)

    def _candidates(self, row: Any, cap: int) -> list[tuple[int, float]]:
        ffi = self._ffi
        tokens, values, n = (
            ffi.new("int32_t[]", max(cap, 1)),
            ffi.new("float[]", max(cap, 1)),
            ffi.new("int32_t *"),
        )
        check(self._lib.pyspec_sampler_candidates(self.handle, row, tokens, values, cap, n))
        return [(int(tokens[j]), float(values[j])) for j in range(min(cap, n[0]))]

    def accept_match(
        self, context: Context, draft: list[int], *, model: Model | None, n_max: int
    ) -> tuple[list[int], int]:
        """Sample-and-match over the output rows 0..len(draft) of the context: see `accept_match_arrays`."""
        if context.n_outputs <= len(draft):
            raise OptionError(
                f"a draft of {len(draft)} needs {len(draft) + 1} output rows, there are {context.n_outputs}"
            )
        return self._accept(context.logits_ptr(0), context.logits_maxima_ptr(0), draft, model, n_max)

    def accept_match_arrays(
        self, rows: NDArray[np.float32], draft: list[int], *, n_max: int, model: Model | None = None
    ) -> tuple[list[int], int]:
        """Choose the target's own token row by row while it equals the draft; returns (emitted tokens, accepted).

        Row 0 of rows {len(draft)+1, n_vocab} belongs to the token before the draft. Stops after an end token of `model`
        and after n_max tokens. The sampler has advanced by the emitted tokens.
        """
        if rows.ndim != 2 or rows.shape[0] <= len(draft):
            raise OptionError(f"rows have shape {rows.shape}, expected ({len(draft) + 1}, {self.n_vocab})")
        return self._accept(self._row(rows), self._ffi.NULL, draft, model, n_max)

    def _accept(
        self, rows: Any, maxima: Any, draft: list[int], model: Model | None, n_max: int
    ) -> tuple[list[int], int]:
        ffi = self._ffi
        out = ffi.new("int32_t[]", len(draft) + 1)
        check(
            self._lib.pyspec_accept_match(
                self.handle,
                ffi.NULL if model is None else model.handle,
                rows,
                maxima,
                ffi.new("int32_t[]", draft),
                len(draft),
                n_max,
                out,
                self._n_out,
                self._n_accepted,
            )
        )
        return ffi.unpack(out, self._n_out[0]), int(self._n_accepted[0])

    def _row(self, logits: NDArray[np.float32]) -> Any:
        return _float_rows(self._ffi, logits, self.n_vocab)


def _float_rows(ffi: Any, rows: NDArray[np.float32], n_vocab: int) -> Any:
    if rows.shape[-1] != n_vocab or rows.dtype.str != "<f4" or not rows.flags.c_contiguous:
        raise OptionError(
            f"logits are {rows.dtype} {rows.shape}, expected contiguous float32 rows of {n_vocab}"
        )
    return ffi.from_buffer("float[]", rows)


def logprobs(context: Context, i: int, token: int, n_top: int = 0) -> tuple[float, list[tuple[int, float]]]:
    """Log-softmax of the raw logits of row i: the value of `token`, and the n_top best with theirs (ties: lowest id)."""
    return _logprobs(context.logits_ptr(i), context.n_vocab, token, n_top)


def logprobs_array(
    logits: NDArray[np.float32], token: int, n_top: int = 0
) -> tuple[float, list[tuple[int, float]]]:
    """`logprobs` on a row of logits."""
    return _logprobs(_float_rows(lib()[0], logits, logits.shape[-1]), logits.shape[-1], token, n_top)


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
