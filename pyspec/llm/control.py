"""The controller of an LLM: where its cost table comes from and where it is kept, and which generations it serves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspec._user_cache import user_cache
from pyspec._version import __version__
from pyspec.errors import OptionError
from pyspec.llm.setup import checked_times
from pyspec.speculation.controller import Controller
from pyspec.speculation.cost_store import CostStore
from pyspec.speculation.cost_table import NOMINAL, CostTable

if TYPE_CHECKING:
    from pyspec.core.context import Context
    from pyspec.core.model import Model
    from pyspec.llm.request import Request


class Control:
    """mode: "auto" or "fixed". controller: None when fixed. store: where its cost table is kept, if anywhere."""

    def __init__(self, mode: str, controller: Controller | None, store: CostStore | None) -> None:
        self.mode = mode
        self.controller = controller
        self._store = store

    def controller_for(self, request: Request) -> Controller | None:
        """Of one generation. By rejection sampling the text depends on what is drafted where: then choices may depend
        on tokens only, on no clock, no measured cost and nothing that the controller learnt from earlier calls. (What
        text drafters remember of those is theirs; `LLM.reset` makes them forget.)
        """
        if self.controller is None or request.acceptance == "match":
            return self.controller
        return Controller(CostTable(dict(NOMINAL), frozen=True), counted_cost=True, quiet=True)

    def finished(self, used: Controller | None) -> None:
        """A generation with this controller has ended."""
        if self.controller is not None and used is self.controller:
            self.controller.end()
            if self._store is not None:
                self._store.save(self.controller.costs)


def make_control(mode: str, times: Mapping[int, float] | None, model: Model, target: Context) -> Control:
    """times: the user's cost table instead of the stored one. OptionError for one that cannot be used."""
    if times is not None:
        times = checked_times(times)
    if mode == "fixed":
        if times is not None:
            raise OptionError("cost_table is what the controller begins with, and lengths are fixed here")
        return Control(mode, None, None)
    if times is not None:
        return Control(mode, Controller(CostTable(times)), None)
    info = model.info
    identity: dict[str, Any] = {
        "version": __version__,
        "kernels": info.kernels,
        "packed": info.packed_bytes > 0,
        "threads": target.n_threads,
        "cache": (target.type_k, target.type_v),
    }
    store = CostStore(user_cache("costs"), Path(model.path), identity)
    return Control(mode, Controller(store.load()), store)
