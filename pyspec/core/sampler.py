"""The sampler: filters, keyed noise, history; and the acceptance rules of drafts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pyspec._native import check, lib
from pyspec.core.context import Context
from pyspec.core.logprobs import draft_choice, logprobs, logprobs_array
from pyspec.core.model import Model
from pyspec.core.rows import float_rows, mask_rows
from pyspec.core.sampling_params import SamplingParams, rejection_refusal, to_c
from pyspec.errors import ClosedError, OptionError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pyspec.core.rows import Masks

    #: What a draft token was drawn from: (token, probability), all candidates, adding up to 1.
    Law = Sequence[tuple[int, float]]
    #: Rows of logits: the output rows of a context, or an array.
    Rows = Context | NDArray[np.float32]

__all__ = [
    "Sampler",
    "SamplingParams",
    "draft_choice",
    "logprobs",
    "logprobs_array",
    "rejection_refusal",
]


class Sampler:
    """Chooses tokens for rows of logits. Choosing changes nothing; `advance` commits a token.

    The noise of a choice is keyed by (seed, number of tokens emitted so far, token id), so the same logits at the same
    place give the same token however many rows were decoded together. One thread at a time.

    Args:
        params: the settings; OptionError names what is out of range.
        n_vocab: width of the rows.
        model: needed only when DRY is on and its breakers are strings.

    Masks (grammars) are arrays of bits, see `pyspec.core.rows.Masks`; what they forbid counts as -inf before anything else.
    """

    def __init__(
        self, params: SamplingParams, n_vocab: int, *, model: Model | None = None, _handle: Any = None
    ) -> None:
        self.params = params
        self.n_vocab = n_vocab
        self._ffi, self._lib = ffi, library = lib()
        if _handle is None:
            search = model.piece_search if model is not None and params.dry_multiplier else None
            c, _keep = to_c(ffi, library, params, search)
            out = ffi.new("pyspec_sampler **")
            check(library.pyspec_sampler_new(c, n_vocab, out))
            _handle = out[0]
        self._handle: Any = ffi.gc(_handle, library.pyspec_sampler_free)
        self._token = ffi.new("int32_t *")
        self._n_out = ffi.new("int32_t *")
        self._n_accepted = ffi.new("int32_t *")
        self._probability = ffi.new("float *")
        self._verification = ffi.new("pyspec_verification *")

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

    # Choosing and committing ----------------------------------------------------------------------------------------

    def sample(self, context: Context, i: int = 0, mask: Masks | None = None) -> int:
        """The token for output row i of the context's last decode. Changes nothing."""
        return self._sample(context.logits_ptr(i), mask)

    def sample_array(self, logits: NDArray[np.float32], mask: Masks | None = None) -> int:
        """The token for a row of logits {n_vocab}."""
        return self._sample(self._row(logits), mask)

    def _sample(self, row: Any, mask: Masks | None) -> int:
        check(self._lib.pyspec_sampler_sample(self.handle, row, self._mask(mask), self._token))
        return int(self._token[0])

    def advance(self, token: int, prompt: bool = False) -> None:
        """A token was emitted (or, with `prompt`, belongs to the prompt): the history grows.

        With mirostat an emitted token's row counts too: OptionError, use `advance_from`.
        """
        check(self._lib.pyspec_sampler_advance(self.handle, token, prompt))

    def advance_from(self, context: Context, i: int, token: int, mask: Masks | None = None) -> None:
        """A token was emitted from output row i: like `advance`, for every setting."""
        row, bits = context.logits_ptr(i), self._mask(mask)
        check(self._lib.pyspec_sampler_advance_from(self.handle, row, bits, token))

    def advance_from_array(self, logits: NDArray[np.float32], token: int, mask: Masks | None = None) -> None:
        """`advance_from` for a row of logits {n_vocab}."""
        row, bits = self._row(logits), self._mask(mask)
        check(self._lib.pyspec_sampler_advance_from(self.handle, row, bits, token))

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

    def candidates(
        self, context: Context, i: int = 0, cap: int = 64, mask: Masks | None = None
    ) -> list[tuple[int, float]]:
        """Tokens that survive the filters on row i with their probabilities, best first, at most `cap`."""
        return self._candidates(context.logits_ptr(i), cap, mask)

    def candidates_array(
        self, logits: NDArray[np.float32], cap: int = 64, mask: Masks | None = None
    ) -> list[tuple[int, float]]:
        """`candidates` on a row of logits {n_vocab}."""
        return self._candidates(self._row(logits), cap, mask)

    def _candidates(self, row: Any, cap: int, mask: Masks | None) -> list[tuple[int, float]]:
        ffi, room = self._ffi, max(cap, 1)
        tokens, values, n = ffi.new("int32_t[]", room), ffi.new("float[]", room), self._n_out
        bits = self._mask(mask)
        check(self._lib.pyspec_sampler_candidates(self.handle, row, bits, tokens, values, cap, n))
        return [(int(tokens[j]), float(values[j])) for j in range(min(cap, n[0]))]

    # Drafting -------------------------------------------------------------------------------------------------------

    def for_drafting(self, scale: float = 0.8, *, draft_seed: int | None = None) -> Sampler:
        """A sampler that makes a drafter's choices, in the same state as this one.

        It has the same settings and the same noise, so that with nearly the same logits it nearly always chooses what
        this one is going to choose; its temperature is `scale` times as high, which is accepted more often. draft_seed
        (default: the seed) keys `draft_sample` only. Use: `follow` the target's sampler, then for each token `draft` and
        `advance`.
        """
        seed = (self.params.seed or 0) if draft_seed is None else draft_seed
        out = self._ffi.new("pyspec_sampler **")
        check(self._lib.pyspec_sampler_for_drafting(self.handle, scale, seed & 0xFFFFFFFFFFFFFFFF, out))
        return Sampler(self.params, self.n_vocab, _handle=out[0])

    def follow(self, target: Sampler) -> None:
        """Take over the target sampler's history, index and mirostat state.

        Costs time only for the tokens in which the two differ. OptionError unless the settings are the target's. (A plain
        clone may follow too.)
        """
        check(self._lib.pyspec_sampler_follow(self.handle, target.handle))

    def draft(
        self, context: Context, row: int, n_allowed: int, mask: Masks | None = None, n_best: int = 10
    ) -> tuple[int, float]:
        """The guess at the target's next token on a row of the draft model, and how likely the target is to agree.

        The token is drawn with the target's own noise for its next index, among ids below n_allowed (and below this
        sampler's n_vocab; the draft model's vocabulary may be shorter or longer). The probability is the token's share
        in a softmax over the n_best best candidates of logit + temperature * noise: the target takes the largest of that
        sum on its logits, so the distance to the runner-up is what tells whether it agrees; the plain probability of a
        drawn token says little about that. At temperature 0 it is the share in the plain softmax. Changes nothing.
        """
        self._draft(
            context.logits_ptr(row), context.logits_maxima_ptr(row), context.n_vocab, n_allowed, mask, n_best
        )
        return int(self._token[0]), float(self._probability[0])

    def draft_array(
        self, logits: NDArray[np.float32], n_allowed: int, mask: Masks | None = None, n_best: int = 10
    ) -> tuple[int, float]:
        """`draft` on a row of logits of any width."""
        n = logits.shape[-1]
        self._draft(float_rows(self._ffi, logits, n), self._ffi.NULL, n, n_allowed, mask, n_best)
        return int(self._token[0]), float(self._probability[0])

    def _draft(self, row: Any, maxima: Any, n: int, n_allowed: int, mask: Masks | None, n_best: int) -> None:
        check(
            self._lib.pyspec_sampler_draft(
                self.handle,
                row,
                maxima,
                n,
                n_allowed,
                self._mask(mask),
                n_best,
                self._token,
                self._probability,
            )
        )

    def draft_sample(
        self, context: Context, row: int, n_allowed: int, mask: Masks | None = None
    ) -> tuple[int, list[tuple[int, float]]]:
        """For rejection sampling: a token drawn from the draft row's candidates with noise of its own, and those candidates
        with their probabilities, which is what `accept_rejection` wants to know. Changes nothing.
        """
        maxima = context.logits_maxima_ptr(row)
        return self._draft_sample(context.logits_ptr(row), maxima, context.n_vocab, n_allowed, mask)

    def draft_sample_array(
        self, logits: NDArray[np.float32], n_allowed: int, mask: Masks | None = None
    ) -> tuple[int, list[tuple[int, float]]]:
        """`draft_sample` on a row of logits of any width."""
        n = logits.shape[-1]
        return self._draft_sample(float_rows(self._ffi, logits, n), self._ffi.NULL, n, n_allowed, mask)

    def _draft_sample(
        self, row: Any, maxima: Any, n: int, n_allowed: int, mask: Masks | None
    ) -> tuple[int, list[tuple[int, float]]]:
        ffi, params = self._ffi, self.params
        room = params.top_k if 0 < params.top_k < n and not params.mirostat else n
        tokens, values = ffi.new("int32_t[]", room), ffi.new("double[]", room)
        check(
            self._lib.pyspec_sampler_draw_draft(
                self.handle, row, maxima, n, n_allowed, self._mask(mask), self._token, tokens, values, room,
                self._n_out,
            )
        )  # fmt: skip
        found = self._n_out[0]
        law = list(zip(ffi.unpack(tokens, found), ffi.unpack(values, found), strict=True))
        return int(self._token[0]), law

    # Acceptance -----------------------------------------------------------------------------------------------------
    #
    # Common to all: rows are a context's output rows, or an array {len(draft) + 1, n_vocab} of logits. Row 0 belongs to the
    # token before the draft, row i to draft[i - 1]. They are taken one after the other while the draft is accepted. It
    # ends after an end token (of `model`, or one of end_ids), after n_max tokens, and after the row behind the last draft
    # token; rows behind that are not looked at. The sampler has advanced by the emitted tokens; on an error it is as
    # before.

    def accept_match(
        self,
        rows: Rows,
        draft: Sequence[int],
        *,
        n_max: int,
        model: Model | None = None,
        masks: Masks | None = None,
        end_ids: Iterable[int] | None = None,
    ) -> tuple[list[int], int]:
        """Sample-and-match: (emitted tokens, accepted).

        The sampler chooses the target's own token for each row; the draft is accepted as far as it says the same.
        masks {len(draft) + 1, (n_vocab + 31) // 32}: what each row may emit.
        """
        _keep = self._verify(rows, draft, model, n_max, masks, end_ids)
        out = self._ffi.new("int32_t[]", len(draft) + 1)
        check(
            self._lib.pyspec_accept_match(self.handle, self._verification, out, self._n_out, self._n_accepted)
        )
        return self._ffi.unpack(out, self._n_out[0]), int(self._n_accepted[0])

    def accept_rejection(
        self,
        rows: Rows,
        draft: Sequence[int],
        distributions: Sequence[Law],
        *,
        n_max: int,
        model: Model | None = None,
        masks: Masks | None = None,
        end_ids: Iterable[int] | None = None,
    ) -> tuple[list[int], int, int]:
        """Rejection sampling: (emitted tokens, accepted, coins looked at). Equal to plain sampling in distribution only.

        distributions[i] is what draft[i] was drawn from: all candidates with their probabilities (`draft_sample`). An
        empty one makes its place be decided by sample-and-match; so does temperature 0 everywhere. UnsupportedError with
        mirostat (ask `rejection_refusal` before generation), OptionError for what is no distribution.
        """
        ffi = self._ffi
        if len(distributions) != len(draft):
            raise OptionError(f"{len(distributions)} distributions were given for {len(draft)} draft tokens")
        _keep = self._verify(rows, draft, model, n_max, masks, end_ids)
        out, n_coins = ffi.new("int32_t[]", len(draft) + 1), ffi.new("int32_t *")
        check(
            self._lib.pyspec_accept_rejection(
                self.handle,
                self._verification,
                ffi.new("int32_t[]", [token for law in distributions for token, _ in law]),
                ffi.new("double[]", [p for law in distributions for _, p in law]),
                ffi.new("int32_t[]", [len(law) for law in distributions]),
                out,
                self._n_out,
                self._n_accepted,
                n_coins,
            )
        )
        return ffi.unpack(out, self._n_out[0]), int(self._n_accepted[0]), int(n_coins[0])

    def accept_replay(
        self,
        rows: Rows,
        forced: Sequence[int],
        *,
        n_max: int,
        model: Model | None = None,
        masks: Masks | None = None,
        end_ids: Iterable[int] | None = None,
    ) -> list[int]:
        """After a checkpoint was restored: emits the forced tokens, which were decided in the first attempt, without
        deciding them again, then one token more (none behind an end token).
        """
        _keep = self._verify(rows, forced, model, n_max, masks, end_ids)
        out = self._ffi.new("int32_t[]", len(forced) + 1)
        check(
            self._lib.pyspec_accept_replay(
                self.handle, self._verification, out, self._n_out, self._n_accepted
            )
        )
        tokens: list[int] = self._ffi.unpack(out, self._n_out[0])
        return tokens

    def accept_synthetic(
        self,
        rows: Rows,
        draft: Sequence[int],
        rates: Sequence[float],
        *,
        n_max: int,
        model: Model | None = None,
        masks: Masks | None = None,
        end_ids: Iterable[int] | None = None,
    ) -> tuple[list[int], int]:
        """For benchmarks: accepts the first i + 1 draft tokens with probability rates[i], by coins keyed by seed and
        index, whatever the target says; (emitted tokens, accepted). The text means nothing. End tokens are never
        accepted. rates: see `pyspec.core.accept.synthetic_rates`; OptionError for a draft longer than they are.
        """
        _keep = self._verify(rows, draft, model, n_max, masks, end_ids)
        out = self._ffi.new("int32_t[]", len(draft) + 1)
        c_rates = self._ffi.new("double[]", list(rates))
        check(
            self._lib.pyspec_accept_synthetic(
                self.handle, self._verification, c_rates, len(rates), out, self._n_out, self._n_accepted
            )
        )
        return self._ffi.unpack(out, self._n_out[0]), int(self._n_accepted[0])

    # Into C ---------------------------------------------------------------------------------------------------------

    def _rows(self, rows: Rows, n_draft: int, n_rows: int) -> tuple[Any, Any]:
        """The first n_rows rows and, of a context, the maxima of their parts."""
        if isinstance(rows, Context):
            if rows.n_outputs < n_rows:
                raise OptionError(
                    f"a draft of {n_draft} needs {n_rows} output rows, there are {rows.n_outputs}"
                )
            return rows.logits_ptr(0), rows.logits_maxima_ptr(0)
        if rows.ndim != 2 or rows.shape[0] < n_rows:
            raise OptionError(f"rows have shape {rows.shape}, expected ({n_rows}, {self.n_vocab})")
        return self._row(rows), self._ffi.NULL

    def _verify(
        self,
        rows: Rows,
        draft: Sequence[int],
        model: Model | None,
        n_max: int,
        masks: Masks | None,
        end_ids: Iterable[int] | None,
    ) -> Any:
        """Fill the struct that acceptance functions take; returns what must live until the call."""
        ffi, v = self._ffi, self._verification
        n_rows = max(1, min(len(draft) + 1, n_max))
        logits, maxima = self._rows(rows, len(draft), n_rows)
        tokens = ffi.new("int32_t[]", draft)
        ends = ffi.NULL if not end_ids else ffi.new("int32_t[]", list(end_ids))
        bits = mask_rows(ffi, masks, n_rows, self.n_vocab)
        v.model = ffi.NULL if model is None else model.handle
        v.end_tokens, v.n_end = ends, 0 if not end_ids else len(ends)
        v.draft, v.n_draft = tokens, len(draft)
        v.rows, v.maxima, v.masks = logits, maxima, bits
        v.n_max = n_max
        return tokens, ends, logits, bits

    def _row(self, logits: NDArray[np.float32]) -> Any:
        return float_rows(self._ffi, logits, self.n_vocab)

    def _mask(self, mask: Masks | None) -> Any:
        return mask_rows(self._ffi, mask, 1, self.n_vocab)
