"""The texts and ids that llama.cpp keeps beside its vocabulary files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyspec.core.tokenizer import make_tokenizer
from tests.tokenizers.vocab_from_gguf import read_vocab

_SEPARATOR = b"\n__ggml_vocab_test__\n"
_NAMES = [
    *(
        "llama-bpe",
        "llama-spm",
        "phi-3",
        "deepseek-llm",
        "deepseek-coder",
        "gpt-2",
        "qwen2",
        "qwen35",
        "starcoder",
    ),
    *("refact", "falcon", "mpt", "command-r"),
]


@pytest.mark.parametrize("name", _NAMES)
def test_golden(name: str, vocab_folder: Path, count_cases: Callable[[int], None]) -> None:
    path = vocab_folder / f"ggml-vocab-{name}.gguf"
    texts = path.with_name(path.name + ".inp").read_bytes().split(_SEPARATOR)
    ids = [
        [int(i) for i in line.split()] for line in path.with_name(path.name + ".out").read_text().split("\n")
    ]
    tokenizer = make_tokenizer(read_vocab(path))
    assert len(texts) == len(ids) > 40
    for text, expected in zip(texts, ids, strict=True):
        assert tokenizer.encode(text, add_special=False) == expected, text
    count_cases(len(texts))
