"""pyspec and llama-cpp-python, each with a ggml of its own, in one process."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from .conftest import Run

PYSPEC = """
def pyspec_logits():
    from pyspec.core.context import Context
    from pyspec.core.model import Model
    with Model(path) as model, Context(model, n_ctx=256, n_threads=1) as context:
        context.decode(tokens)
        return context.logits(0).copy()
"""
ORACLE = """
def oracle_logits():
    from tests.oracle import Oracle
    with Oracle(path, n_ctx=256) as oracle:
        return oracle.decode(tokens)[-1].copy()
"""
ORDERS = {
    "pyspec first": "a = pyspec_logits(); b = oracle_logits(); c = pyspec_logits()",
    "llama_cpp first": "b = oracle_logits(); a = pyspec_logits(); c = pyspec_logits()",
    "interleaved imports": (
        "import llama_cpp, pyspec._native; pyspec._native.lib()\n"
        "a = pyspec_logits(); b = oracle_logits(); c = pyspec_logits()"
    ),
}


@pytest.mark.parametrize("order", ORDERS)
def test_one_process(order: str, tiny: Any, run: Run, repository: Any) -> None:
    """Neither disturbs the other: our logits are the same bytes alone, before and after, and close to theirs."""
    setup = f"path = {str(tiny.path('llama'))!r}\ntokens = list(range(3, 30))\n{PYSPEC}{ORACLE}"
    show = "print(a.tobytes().hex() == c.tobytes().hex(), float(abs(a - b).max() / (b.max() - b.min())))"
    code = f"{setup}\n{ORDERS[order]}\n{show}\nprint(a[:64].tobytes().hex())"
    lines = run([sys.executable, "-c", code], cwd=repository).stdout.splitlines()
    same, difference = lines[-2].split()
    assert same == "True"
    assert float(difference) < 5e-3
    alone = run(
        [sys.executable, "-c", f"{setup}\nprint(pyspec_logits()[:64].tobytes().hex())"], cwd=repository
    )
    assert alone.stdout.splitlines()[-1] == lines[-1]
