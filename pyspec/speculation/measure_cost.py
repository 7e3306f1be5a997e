"""T(n) measured once, on the session's own context, behind the tokens that it holds."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

from pyspec.speculation.rollback import try_keep

if TYPE_CHECKING:
    from pyspec.core.context import CancelToken, Context

#: Rows of the measured decodes: the ends of what a narrow kernel tile does, and a first wide one.
WIDTHS = (1, 4, 8)
#: No new measurement begins after so many seconds.
TIME_LIMIT = 0.35


def measure_cost(
    target: Context,
    *,
    widths: tuple[int, ...] = WIDTHS,
    cancel: CancelToken | None = None,
    clock: Callable[[], float] = perf_counter,
) -> dict[int, float]:
    """Milliseconds by number of rows, {} when the context has no room or cannot drop tokens.

    Decodes tokens of id 0 after those in memory and drops them again; the output rows of the last decode are lost.
    The first decode of a width builds its graph and is not counted, unless time runs out.
    """
    n_held = target.seq_pos_max(0) + 1
    widths = tuple(n for n in widths if n <= min(target.n_batch, target.n_outputs_max))
    if not widths or n_held + max(widths) > target.n_ctx:
        return {}
    found: dict[int, float] = {}
    begun = clock()
    for n in widths:
        for _ in range(2):
            started = clock()
            if started - begun > TIME_LIMIT and n in found:
                break
            target.decode([0] * n, outputs="all", cancel=cancel)
            if not try_keep(target, n_held):
                return {}
            found[n] = 1e3 * (clock() - started)
    return found
