"""Acceptance rules that need Python, and the numbers of synthetic acceptance.

The rules themselves are methods of `Sampler`. Here is the loop for rows that Python functions change before a token is
chosen from them (`logits_processor=`): it costs a copy of each row that is looked at, and the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from pyspec._native import check, lib
from pyspec.errors import OptionError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pyspec.core.context import Context
    from pyspec.core.model import Model
    from pyspec.core.rows import Masks
    from pyspec.core.sampler import Law, Sampler

    #: processor(tokens, logits {n_vocab}) -> logits, or None when it changed them in place. tokens: everything before
    #: the token to be chosen; read it, do not keep or change it.
    LogitsProcessor = Callable[[list[int], NDArray[np.float32]], "NDArray[np.float32] | None"]

__all__ = ["accept_processed", "processed_row", "rejection_rule", "synthetic_rates"]


def processed_row(
    logits: NDArray[np.float32], tokens: list[int], processors: Sequence[LogitsProcessor]
) -> NDArray[np.float32]:
    """A copy of a row of logits after every processor has changed it, in order.

    OptionError when one returns something that is no row of as many numbers; its own exceptions pass through.
    """
    import numpy as np

    row = np.array(logits, dtype=np.float32)
    for processor in processors:
        changed = processor(tokens, row)
        if changed is None:
            continue
        try:
            new = np.ascontiguousarray(changed, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise OptionError(f"a logits processor returned no row of logits: {error}") from None
        if new.shape != logits.shape:
            raise OptionError(f"a logits processor returned the shape {new.shape}, expected {logits.shape}")
        row = new
    return row


def accept_processed(
    sampler: Sampler,
    context: Context,
    draft: Sequence[int],
    processors: Sequence[LogitsProcessor],
    *,
    history: Sequence[int],
    model: Model | None,
    n_max: int,
    masks: Masks | None = None,
    end_ids: Collection[int] | None = None,
    distributions: Sequence[Law] | None = None,
    seen: list[NDArray[np.float32]] | None = None,
) -> tuple[list[int], int]:
    """`Sampler.accept_match` (with distributions: `accept_rejection`) on rows that processors change first.

    history: all tokens up to the one that output row 0 belongs to; each processor sees it with the tokens that are emitted
    before its row. Masks apply after the processors. seen: gets the changed rows, one for each emitted token. On any error,
    also a processor's own, the sampler is as before.
    """
    tokens = list(history)
    emitted: list[int] = []
    accepted = 0
    start = sampler.n_history
    try:
        for i in range(max(1, min(len(draft) + 1, n_max))):
            row = processed_row(context.logits(i), tokens, processors)[None]
            if seen is not None:
                seen.append(row[0])
            mask = None if masks is None else masks[i : i + 1]
            guess = draft[i : i + 1]
            n_left = min(1, n_max)  # a bad n_max is refused where all are
            if distributions is None or not guess:
                chosen, right = sampler.accept_match(row, guess, n_max=n_left, masks=mask)
            else:
                laws = distributions[i : i + 1]
                chosen, right, _ = sampler.accept_rejection(row, guess, laws, n_max=n_left, masks=mask)
            emitted += chosen
            tokens += chosen
            accepted += right
            token = chosen[0]
            if not right or (model is not None and model.is_eog(token)) or (end_ids and token in end_ids):
                break
    except BaseException:
        sampler.rollback(sampler.n_history - start)
        raise
    return emitted, accepted


def rejection_rule(p: Law, q: Law, drafted: int) -> tuple[float, list[tuple[int, float]]]:
    """The rule of rejection sampling for one place: the probability of accepting a token drawn from q where the target
    draws from p, and the law of the token after a rejection. Both: (token, probability) in any order.
    """
    ffi, library = lib()
    p, q = sorted(p), sorted(q)
    acceptance, residual = ffi.new("double *"), ffi.new("double[]", max(1, len(p)))
    check(
        library.pyspec_rejection_rule(
            ffi.new("int32_t[]", [token for token, _ in p]),
            ffi.new("double[]", [value for _, value in p]),
            len(p),
            ffi.new("int32_t[]", [token for token, _ in q]),
            ffi.new("double[]", [value for _, value in q]),
            len(q),
            drafted,
            acceptance,
            residual,
        )
    )
    return float(acceptance[0]), [(token, float(residual[i])) for i, (token, _) in enumerate(p)]


def synthetic_rates(
    n_draft: int, *, length: float | None = None, rates: Sequence[float] | None = None
) -> list[float]:
    """Rates for `Sampler.accept_synthetic`: rates[i] is the share of drafts whose first i + 1 tokens are accepted.

    Args:
        n_draft: longest draft, and the number of rates.
        length: mean number of tokens that a round of n_draft draft tokens emits, 1 .. n_draft + 1.
        rates: instead of length, the rates themselves: falling, within 0 .. 1.

    OptionError when both or neither are given, or for values out of range.
    """
    ffi, library = lib()
    if (length is None) == (rates is None):
        raise OptionError("give either length= or rates= for synthetic acceptance")
    if rates is None:
        room = ffi.new("double[]", max(1, n_draft))
        check(library.pyspec_synthetic_rates(length, n_draft, room))
        return list(ffi.unpack(room, n_draft))
    rates = [float(rate) for rate in rates]
    if n_draft < 1 or len(rates) != n_draft:
        raise OptionError(
            f"{len(rates)} synthetic rates were given for drafts of {n_draft}; give one for each token"
        )
    for i, rate in enumerate(rates):
        most = rates[i - 1] if i else 1.0
        if not 0.0 <= rate <= most:
            raise OptionError(
                f"synthetic rate {i + 1} is {rate}; allowed: 0 to {most} (each at most the one before)"
            )
    return rates
