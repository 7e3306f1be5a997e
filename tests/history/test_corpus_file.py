"""Corpus files: what is written is read, and nothing else is."""

from __future__ import annotations

import dataclasses
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspec.core.vocab import Vocab
from pyspec.drafters.corpus_file import MAGIC, fingerprint, read_corpus, write_corpus
from pyspec.drafters.suffix import Suffix
from pyspec.errors import FileFormatError, OptionError

VOCAB = Vocab(
    kind="gpt2",
    pre="qwen2",
    texts=[b"%d" % i for i in range(50)],
    types=[1] * 50,
    merges=[b"a b", b"ab c"],
    bos=1,
    eos=2,
    eog=frozenset({2, 3}),
)


@settings(max_examples=50, deadline=None)
@given(documents=st.lists(st.lists(st.integers(0, 49), max_size=20), max_size=6))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, documents: list[list[int]]) -> None:
    path = tmp_path_factory.mktemp("corpus") / "a.corpus"
    written = write_corpus(path, documents, VOCAB)
    corpus = read_corpus(path, VOCAB)
    assert corpus == written
    assert corpus.documents == documents
    assert [entry.name for entry in path.parent.iterdir()] == ["a.corpus"]


def test_drafts_come_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.corpus"
    write_corpus(path, [[10, 11, 12, 13, 14, 2], [], [20, 21, 22]], VOCAB)
    drafter = Suffix(corpora=[read_corpus(path, VOCAB)], end_tokens=VOCAB.eog, p_min=0.0)
    drafter.begin([5, 10])
    draft = drafter.propose([5, 10], 11, 9)
    assert draft is not None and draft.tokens == [12, 13, 14, 2]
    drafter.begin([5, 20])
    draft = drafter.propose([5, 20], 21, 9)
    assert draft is not None and draft.tokens == [22]
    drafter.begin([5, 14])
    draft = drafter.propose([5, 14], 20, 9)  # a draft never goes from one document into the next
    assert draft is not None and draft.tokens == [21, 22]


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "llama"},
        {"pre": "llama-bpe"},
        {"texts": [*VOCAB.texts[:-1], b"other"]},
        {"texts": [*VOCAB.texts, b"more"], "types": [1] * 51},
        {"types": [*VOCAB.types[:-1], 3]},
        {"merges": [b"a b"]},
        {"merges": [b"a ba", b"b c"]},
        {"eos": 4},
        {"add_bos": True},
        {"eog": frozenset({2})},
    ],
)
def test_another_tokenizer_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "a.corpus"
    write_corpus(path, [[1, 2, 3]], VOCAB)
    other = dataclasses.replace(VOCAB, **change)
    assert fingerprint(other) != fingerprint(VOCAB)
    with pytest.raises(FileFormatError, match="another tokenizer"):
        read_corpus(path, other)


def test_name_and_metadata_do_not_matter(tmp_path: Path) -> None:
    """Two models with one tokenizer share their corpora."""
    path = tmp_path / "a.corpus"
    write_corpus(path, [[1, 2, 3]], VOCAB)
    assert read_corpus(path, dataclasses.replace(VOCAB, name="other", meta={"x": 1})).documents == [[1, 2, 3]]


def test_damaged_files(tmp_path: Path) -> None:
    """Every cut and every changed byte outside the tokens is refused; changed tokens are when they are no ids."""
    path = tmp_path / "a.corpus"
    write_corpus(path, [[1, 2, 3], [4]], VOCAB)
    good = path.read_bytes()
    rng = random.Random(1)
    bad = [good[:n] for n in range(len(good))] + [good + b"\0"]
    n_head = len(good) - 4 * 4
    for at in range(n_head):
        changed = bytearray(good)
        changed[at] ^= rng.randrange(1, 256)
        bad.append(bytes(changed))
    bad.append(good[:-4] + struct.pack("<i", 50))
    bad.append(good[:-4] + struct.pack("<i", -1))
    for data in bad:
        path.write_bytes(data)
        with pytest.raises(FileFormatError):
            ends = read_corpus(path, VOCAB).ends
            if ends != [3, 4] and ends == sorted(ends):  # others that fit
                raise FileFormatError("noticed")
    path.write_bytes(good)
    assert read_corpus(path, VOCAB).documents == [[1, 2, 3], [4]]


def test_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"GGUF" + bytes(200))
    with pytest.raises(FileFormatError, match="not a corpus file"):
        read_corpus(path, VOCAB)
    path.write_bytes(MAGIC + struct.pack("<II", 2, 4) + bytes(200))
    with pytest.raises(FileFormatError, match="version 2"):
        read_corpus(path, VOCAB)
    with pytest.raises(FileNotFoundError):
        read_corpus(tmp_path / "none", VOCAB)


def test_too_much_text_is_noticed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not after all of it was made into tokens."""
    monkeypatch.setattr("pyspec.drafters.corpus_file.MAX_TOKENS", 4)
    made = []

    def documents() -> Iterator[list[int]]:
        for number in range(9):
            made.append(number)
            yield [1, 2, 3]

    with pytest.raises(OptionError, match="the first 2 documents have 6 tokens, a corpus holds at most 4"):
        write_corpus(tmp_path / "a.corpus", documents(), VOCAB)
    assert made == [0, 1] and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("documents", [[[50]], [[-1]], [["x"]], [[2**40]]])
def test_ids_are_checked(tmp_path: Path, documents: Any) -> None:
    path = tmp_path / "a.corpus"
    with pytest.raises(OptionError):
        write_corpus(path, documents, VOCAB)
    assert list(tmp_path.iterdir()) == []
