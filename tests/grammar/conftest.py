"""Compilers on the vocabularies of the tiny models."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pyspec.core.model import Model
from pyspec.core.tokenizer import Tokenizer
from pyspec.llm.grammar import GrammarCompiler
from tests.conftest import TinyFiles

#: A byte-level BPE vocabulary, an SPM one with byte tokens and a space in front, one without that space.
FAMILIES = ["llama", "llama_bias", "gemma3"]


def compiler_for(tokenizer: Tokenizer, n_vocab: int | None = None) -> GrammarCompiler:
    """A compiler for a tokenizer alone; n_vocab beyond the tokenizer's are padding ids."""
    model: Any = SimpleNamespace(
        tokenizer=tokenizer, info=SimpleNamespace(n_vocab=n_vocab or tokenizer.vocab.n_tokens)
    )
    return GrammarCompiler(model)


@pytest.fixture(scope="session")
def compiler(tiny: TinyFiles) -> Callable[..., GrammarCompiler]:
    """compiler(family): on the vocabulary of a tiny model, the same one each time."""
    made: dict[str, GrammarCompiler] = {}

    def make(family: str = "llama") -> GrammarCompiler:
        if family not in made:
            made[family] = GrammarCompiler(Model(tiny.path(family), metadata_only=True))
        return made[family]

    return make
