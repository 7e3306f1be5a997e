"""T(n) measured once, on the session's own context, behind the tokens that it holds."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

from pyspec.speculation.cost_table import nominal
from pyspec.speculation.rollback import keep

if TYPE_CHECKING:
    from pyspec.core.context import CancelToken, Context

#: Rows of the measured decodes: the ends of what a narrow kernel tile does, and a first wide one.
WIDTHS = (1, 4, 8)
#: No new decode begins after so many seconds, and none that is expected to take longer than what is left.
TIME_LIMIT = 0.4


def measure_cost(
    target: Context,
    *,
    widths: tuple[int, ...] = WIDTHS,
    cancel: CancelToken | None = None,
    clock: Callable[[], float] = perf_counter,
) -> dict[int, float]:
    """Milliseconds by number of rows, {} when the context has no room.

    Decodes tokens of id 0 after those in memory and drops them again; the output rows of the last decode are lost.
    The first decode of a width builds its graph and is not counted, unless time runs out. Widths for which there is no
    time are left out: {} or a few are a normal answer.
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
            left = TIME_LIMIT - (started - begun)
            if found and 1e3 * left < min(found.values()) * nominal(n) / nominal(min(found)):
                return found
            target.decode([0] * n, outputs="all", cancel=cancel)
            keep(target, n_held)
            found[n] = 1e3 * (clock() - started)
    return found
