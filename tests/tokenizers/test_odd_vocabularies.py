"""Hand-made vocabularies with odd contents give the oracle's ids too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyspec.core.tokenizer import make_tokenizer
from pyspec.core.vocab import TokenType, Vocab
from tests.tokenizers.oracle_vocab import OracleVocab
from tests.tokenizers.texts import texts
from tests.tokenizers.tiny_vocabs import bpe_vocab, spm_vocab, write_gguf
from tests.tokenizers.vocab_from_gguf import read_vocab

_NO_BOS = {"tokenizer.ggml.add_bos_token": False}
_MERGES = ["a b", "ab c", "b c", "Ġ ab", "a a", "aa aa", "Ã ©", "a Ã©", "' s", "1 2", "Ġ Ġ", "í ł", "íł ½"]
_PIECES = [
    *(
        ("▁", -1.0),
        ("a", -1.0),
        ("b", -1.0),
        ("c", -1.0),
        ("é", -9.0),
        ("ab", -2.0),
        ("bc", -3.0),
        ("abc", -2.5),
    ),
    *(
        ("▁ab", -4.0),
        ("▁▁", -5.0),
        ("▁▁▁▁", -3.5),
        ("aa", -2.0),
        ("<", -1.0),
        ("s", -1.0),
        (">", -1.0),
        ("<s", -6.0),
    ),
]
_EXTRA = [
    *(("<|end|>", TokenType.CONTROL), ("<tool>", TokenType.USER_DEFINED), ("   ", TokenType.USER_DEFINED)),
    *(("\n\n", TokenType.USER_DEFINED), ("bca", TokenType.UNUSED), ("Ġcab", TokenType.NORMAL)),
]

_VOCABULARIES: dict[str, Callable[[], Vocab]] = {
    "bpe": lambda: bpe_vocab(_MERGES, _EXTRA, bos=0, eos=1),
    "bpe without some bytes": lambda: bpe_vocab(_MERGES, _EXTRA, without="bĠÃ½Ļ\n", bos=0, eos=1),
    "bpe without merge results": lambda: bpe_vocab(
        _MERGES, _EXTRA, missing=("ab", "Ã©", "aa", "íł"), bos=0, eos=1
    ),
    "bpe with equal rules": lambda: bpe_vocab([*_MERGES[::-1], *_MERGES], _EXTRA, bos=0, eos=1),
    "bpe with whole words": lambda: bpe_vocab(_MERGES, _EXTRA, pre="llama-bpe", bos=0, eos=1, meta=_NO_BOS),
    "bpe with whole words without merge results": lambda: bpe_vocab(
        _MERGES,
        [*_EXTRA, ("aa1", TokenType.NORMAL)],
        pre="tekken",
        missing=("ab", "aa", "Ã©"),
        bos=0,
        eos=1,
        meta=_NO_BOS,
    ),
    "bpe of deepseek": lambda: bpe_vocab(_MERGES, _EXTRA, pre="deepseek-v3", bos=0, eos=1),
    "spm": lambda: spm_vocab(_PIECES, _EXTRA),
    "spm without space in front": lambda: spm_vocab(_PIECES, _EXTRA, add_space_prefix=False),
    "spm of phi-3": lambda: spm_vocab(_PIECES, [*_EXTRA, ("<|endoftext|>", TokenType.CONTROL)], name="Phi-3"),
}


@pytest.mark.parametrize("name", _VOCABULARIES)
def test_ids(name: str, tmp_path: Path, count_cases: Callable[[int], None]) -> None:
    pytest.importorskip("llama_cpp")
    path = write_gguf(_VOCABULARIES[name](), tmp_path / "odd.gguf")
    vocab = read_vocab(path)
    ours, oracle = make_tokenizer(vocab), OracleVocab(path)
    letters = st.text("aabbcé s<>'12 \n", max_size=20).map(str.encode)
    special = [b"<|end|>", b"<tool>", b"<s>", b"</s>", b"<unk>", b"   ", b"\n\n"]

    @settings(
        max_examples=200,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.one_of(
            letters,
            texts(special),
            st.builds(lambda a, b, c: a + b + c, letters, st.sampled_from(special), letters),
        )
    )
    def check(data: bytes) -> None:
        for parse_special in (False, True):
            assert ours.encode(data, add_special=parse_special, parse_special=parse_special) == oracle.encode(
                data, parse_special, parse_special
            )

    check()
    for token in range(vocab.n_tokens):
        for special_text in (False, True):
            assert ours.piece(token, special_text) == oracle.piece(token, special_text), vocab.texts[token]
    oracle.close()
    count_cases(200)
