"""Text that the answer is expected to resemble, and corpora: drafted from, never changing the answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyspec.drafters.corpus_file import write_corpus
from pyspec.errors import FileFormatError, OptionError
from pyspec.llm.llm import LLM
from tests.conftest import TinyFiles

PROMPT = "The quick brown fox"


def test_predicted_text_is_drafted(open_llm: Callable[..., LLM]) -> None:
    """The plain answer given as prediction is accepted from its first tokens on; a wrong prediction changes nothing."""
    plain = open_llm("llama", drafters="none").generate(PROMPT, max_tokens=60, temperature=0)
    with_it = open_llm("llama", drafters="suffix").generate(
        PROMPT, max_tokens=60, temperature=0, predicted=PROMPT + plain.text
    )
    without = open_llm("llama", drafters="suffix").generate(PROMPT, max_tokens=60, temperature=0)
    wrong = open_llm("llama", drafters="suffix").generate(
        PROMPT, max_tokens=60, temperature=0, predicted="Something else entirely. " * 5
    )
    assert plain.tokens == with_it.tokens == without.tokens == wrong.tokens
    assert with_it.stats.accepted > without.stats.accepted
    with pytest.raises(OptionError, match="predicted is text"):
        open_llm("llama").generate(PROMPT, predicted=[1, 2])


def test_corpora_are_copied_from(open_llm: Callable[..., LLM], tiny: TinyFiles, tmp_path: Path) -> None:
    first = open_llm("llama", drafters="none")
    ids = first.tokenize(PROMPT)
    plain = first.generate(ids, max_tokens=60, temperature=0)
    path = tmp_path / "answers.corpus"
    write_corpus(path, [ids + plain.tokens], first.model.vocab)
    again = open_llm("llama", drafters="suffix", corpora=[path]).generate(ids, max_tokens=60, temperature=0)
    assert again.tokens == plain.tokens
    assert again.stats.accepted >= 40
    (tmp_path / "broken").write_bytes(b"no corpus")
    with pytest.raises(FileFormatError, match="not a corpus file"):
        LLM(tiny.path("llama"), corpora=[tmp_path / "broken"])
    with pytest.raises(OptionError, match="list of files"):
        LLM(tiny.path("llama"), corpora=str(path))  # type: ignore[arg-type]


def test_what_nothing_would_copy_from_is_refused(open_llm: Callable[..., LLM]) -> None:
    llm = open_llm("llama")
    with pytest.raises(OptionError, match="predicted is text to copy drafts from"):
        llm.generate(PROMPT, max_tokens=4, predicted="text", drafters="ngram-simple")
    assert len(llm.generate(PROMPT, max_tokens=4, temperature=0).tokens) == 4
    with pytest.raises(OptionError, match="corpora are texts to copy drafts from"):
        open_llm("llama", drafters="ngram-simple", corpora=["file"])


def test_reset_forgets_what_suffix_remembers(open_llm: Callable[..., LLM]) -> None:
    llm = open_llm("llama", drafters="suffix")
    first = llm.generate(PROMPT, max_tokens=100, temperature=0)
    llm.reset()
    again = llm.generate(PROMPT, max_tokens=100, temperature=0)
    assert again.tokens == first.tokens
    assert (again.stats.drafted, again.stats.accepted) == (first.stats.drafted, first.stats.accepted)
