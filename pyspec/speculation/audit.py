"""The auditor: after a round, do all owners agree with the committed history? Used by tests and debug
runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspec.errors import InternalError
from pyspec.speculation.chain import Chain

if TYPE_CHECKING:
    from pyspec.core.context import Context
    from pyspec.core.sampler import Sampler


def audit(
    *,
    history: list[int],
    target: Context,
    chain: Chain,
    sampler: Sampler | None = None,
    n_history: int = 0,
    index: int = 0,
) -> None:
    """Raise InternalError listing every disagreement.

    history: tokens whose cells the target must hold, at positions 0, 1, ... sampler: must have seen n_history
    tokens and be about to choose the index-th one.
    """
    problems: list[str] = []
    n = len(history)
    if target.seq_pos_max(0) != n - 1:
        problems.append(f"target ends at position {target.seq_pos_max(0)}, the history at {n - 1}")
    if target.n_cells != n:
        problems.append(f"target has {target.n_cells} cells for {n} tokens")
    if n and target.seq_pos_min(0) != 0:
        problems.append(f"target begins at position {target.seq_pos_min(0)}")
    if sampler is not None:
        if sampler.n_history != n_history:
            problems.append(f"sampler has seen {sampler.n_history} tokens instead of {n_history}")
        if sampler.index != index:
            problems.append(f"sampler is at index {sampler.index} instead of {index}")
    for member in chain.members:
        check = getattr(member.drafter, "audit", None)
        if member.parked is None and check is not None:
            problem = check(history)
            if problem is not None:
                problems.append(problem)
    if problems:
        raise InternalError("audit: " + "; ".join(problems))
