"""A fake LLM in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyspec.llm.llm import LLM
from tests.fakes import FakeCore, FakeModel


@pytest.fixture
def make_llm() -> Iterator[Callable[..., LLM]]:
    """make_llm(target=…, draft_model=…, core=…, **LLM options) with the auditor on; everything is closed
    afterwards.
    """
    made: list[LLM] = []

    def make(
        target: FakeModel | None = None,
        draft_model: FakeModel | None = None,
        core: FakeCore | None = None,
        **options: Any,
    ) -> LLM:
        target = target or FakeModel()
        models = [target] if draft_model is None else [target, draft_model]
        core = core or FakeCore(*models)
        if draft_model is not None:
            options.setdefault("draft", draft_model.path)
        options.setdefault("controller", "fixed")  # counts that do not depend on a clock
        llm = LLM(target.path, audit=True, _backend=core.backend, **options)
        llm.core = core  # type: ignore[attr-defined]
        made.append(llm)
        return llm

    yield make
    for llm in made:
        llm.close()
