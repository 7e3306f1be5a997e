"""LLMs on tiny models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyspec.llm.llm import LLM
from tests.conftest import TinyFiles


@pytest.fixture
def open_llm(tiny: TinyFiles) -> Iterator[Callable[..., LLM]]:
    """open_llm(family, **LLM options): one thread, auditor on, closed afterwards."""
    made: list[LLM] = []

    def make(family: str, **options: Any) -> LLM:
        if "draft" in options:
            options["draft"] = tiny.path(family, **options["draft"])
        options = {"n_ctx": 512, "n_threads": 1, "audit": True} | options
        options.setdefault("controller", "fixed")  # counts that do not depend on a clock
        made.append(LLM(tiny.path(family), **options))
        return made[-1]

    yield make
    for llm in made:
        llm.close()
