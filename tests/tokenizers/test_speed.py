"""Making a tokenizer and encoding are fast enough not to be noticed. The limits leave room for a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pyspec.core.tokenizer import make_tokenizer
from tests.tokenizers.vocab_from_gguf import read_vocab


@pytest.mark.long
@pytest.mark.parametrize("name", ["qwen2", "model:gemma3-270m"])
def test_speed(name: str, vocab_path: Callable[[str], Path]) -> None:
    """Aims on an idle core: 0.5 s for Qwen's 152,000 tokens, 200,000 tokens per second."""
    vocab = read_vocab(vocab_path(name))
    text = Path(__file__).with_name("test_against_oracle.py").read_text("utf-8") * 40
    made, encoded = [], []
    for _ in range(3):
        start = time.process_time()
        tokenizer = make_tokenizer(vocab)
        made.append(time.process_time() - start)
        start = time.process_time()
        n = len(tokenizer.encode(text))
        encoded.append(n / (time.process_time() - start))
    print(f"{name}: made in {min(made):.2f} s, {max(encoded):,.0f} tokens/s")
    assert min(made) < 1.2 and max(encoded) > 100_000
