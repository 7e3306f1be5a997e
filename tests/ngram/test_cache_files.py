"""Files of ngram-cache: written by the core and read elsewhere, written elsewhere and read by the core, bad ones refused."""

from __future__ import annotations

import logging
import os
import stat
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspec.core.ngram import NgramTable
from pyspec.drafters.base import Verdict
from pyspec.drafters.ngram_cache import NgramCache
from pyspec.errors import FileFormatError, OptionError

from .files import parse, write
from .references import Counts

N_VOCAB = 1000
KEYS = st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=4).map(tuple)
FOUND = st.dictionaries(st.integers(0, N_VOCAB - 1), st.integers(1, 2**31 - 1), min_size=1, max_size=6)
TABLES = st.dictionaries(KEYS, FOUND, max_size=8)
Table = dict[tuple[int, ...], dict[int, int]]


def table() -> NgramTable:
    return NgramTable("cache", n_vocab=N_VOCAB)


@settings(max_examples=100, deadline=None)
@given(TABLES)
def test_round_trip(content: Table) -> None:
    """Invariant 33: load(save(x)) == x, for both tables; an empty file is an empty table."""
    cache = table()
    for name in ("static", "dynamic"):
        cache.load(name, write(content), "it")
        saved = cache.save(name)
        assert parse(saved) == content
        cache.load(name, saved, "it")
        assert parse(cache.save(name)) == content


@settings(max_examples=100, deadline=None)
@given(TABLES, TABLES, st.lists(st.integers(0, 9), max_size=30))
def test_sums(a: Table, b: Table, text: list[int]) -> None:
    """Invariant 33: merging adds counts, which end at 2^31 - 1. Files may be joined end to end, and what is learnt is
    the sum of the dynamic table and the text.
    """
    cache = table()
    cache.load("dynamic", write(a) + write(b), "it")
    assert parse(cache.save("dynamic")) == summed(a, b)
    cache.begin(text)
    own = Counts()
    own.count(text)
    assert parse(cache.save("learnt")) == summed(summed(a, b), own.counts)


def summed(a: Table, b: Table) -> Table:
    total = {key: dict(found) for key, found in a.items()}
    for key, found in b.items():
        mine = total.setdefault(key, {})
        for token, count in found.items():
            mine[token] = min(2**31 - 1, mine.get(token, 0) + count)
    return total


def test_what_is_no_text_is_not_learnt() -> None:
    """Negative ids stand for what is not text: nothing is counted before, behind or across them."""
    cache = table()
    cache.begin([1, 2, -7, 3, 4])
    assert parse(cache.save("learnt")) == {(1,): {2: 1}, (3,): {4: 1}}


def test_a_file_that_numpy_wrote(tmp_path: Path) -> None:
    """Two records as one array of native 32-bit integers."""
    path = tmp_path / "static.bin"
    np.array([3, 4, -1, -1, 2, 7, 5, 9, 1, 4, 7, -1, -1, 1, 8, 2], np.int32).tofile(path)
    cache = NgramCache(n_vocab=10, static=str(path))
    assert parse(cache.table.save("static")) == {(3, 4): {7: 5, 9: 1}, (4, 7): {8: 2}}
    history = [0, 1, 3]
    cache.begin(history)
    draft = cache.propose(history, 4, 8)
    assert draft is not None and draft.tokens == [7, 8]


GOOD = write({(1, 2): {3: 4, 5: 6}, (7,): {8: 1}})


@pytest.mark.parametrize("n", [n for n in range(1, len(GOOD)) if n != 36])
def test_truncated_files(n: int) -> None:
    """Every cut that is not between two records is refused, and the table stays what it was."""
    cache = table()
    cache.load("static", GOOD, "good")
    with pytest.raises(FileFormatError, match=rf"cut\.bin.*ends inside a record at byte \d+ of {n}$"):
        cache.load("static", GOOD[:n], "cut.bin")
    assert cache.save("static") == GOOD


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([1, 2, -1, -1, 1, 3, 0], "a count of 0 at byte 24 of 28"),
        ([1, 2, -1, -1, 1, 3, -5], "a count of -5 at byte 24"),
        ([1, 2, -1, -1, 0], "0 tokens after an n-gram at byte 16"),
        ([1, 2, -1, -1, -3], "-3 tokens after an n-gram"),
        ([1, 2, -1, -1, 2**31 - 1, 3, 1], "ends inside a record"),
        ([-1, -1, -1, -1, 1, 3, 1], "empty or has a gap at byte 0"),
        ([1, -1, 2, -1, 1, 3, 1], "empty or has a gap at byte 0"),
        ([1, -2, -1, -1, 1, 3, 1], r"token id -2 \(the vocabulary has 1000\) at byte 4"),
        ([1, 2, -1, -1, 1, 1000, 1], "token id 1000"),
        ([1, 2, -1, -1, 1, -1, 1], "token id -1"),
        ([1000, 2, -1, -1, 1, 3, 1], "token id 1000 .* at byte 0"),
    ],
)
def test_bad_files(numbers: list[int], message: str) -> None:
    """llama.cpp ends the process on some of these and reads past the vocabulary with others."""
    cache = table()
    cache.load("dynamic", GOOD, "good")
    with pytest.raises(FileFormatError, match=message):
        cache.load("dynamic", struct.pack(f"={len(numbers)}i", *numbers), "bad.bin")
    assert cache.save("dynamic") == GOOD


def test_a_file_that_is_something_else(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + bytes(range(256)) * 9)
    with pytest.raises(FileFormatError, match=r"model\.gguf is not a table of n-gram counts for this model"):
        NgramCache(n_vocab=10, dynamic=str(path))
    with pytest.raises(FileFormatError, match="cannot be read"):
        NgramCache(n_vocab=10, static=str(tmp_path / "none"))


def test_only_a_cache_has_tables() -> None:
    with pytest.raises(OptionError, match="has tables"):
        NgramTable("simple").save("context")
    with pytest.raises(OptionError, match="can be loaded"):
        table().load("context", b"", "x")
    with pytest.raises(OptionError, match="unknown table 'other'"):
        table().save("other")


def counted(*texts: list[int]) -> Table:
    counts = Counts()
    for text in texts:
        counts.count(text)
    return counts.counts


def test_written_back(tmp_path: Path) -> None:
    """save=1: at the end the file holds what it held and the session's text, also that of conversations before the last;
    an undone round is no text. Without save the file is never touched.
    """
    path = tmp_path / "dynamic.bin"
    first, second = [1, 2, 3, 1, 2, 4], [9, 8, 7, 9, 8]
    cache = NgramCache(n_vocab=10, dynamic=str(path), save=True)
    cache.begin(first)
    token = cache.checkpoint()
    cache.commit(Verdict([5, 5, 5], [5, 5, 6], [], 0), None, False)
    cache.restore(token)
    cache.begin(second)
    cache.close()
    cache.close()
    assert parse(path.read_bytes()) == counted(first, second)
    before = path.read_bytes()

    cache = NgramCache(n_vocab=10, dynamic=str(path))
    cache.begin([3, 3, 3])
    cache.close()
    assert path.read_bytes() == before

    path.chmod(0o600)
    cache = NgramCache(n_vocab=10, dynamic=str(path), save=True)
    cache.begin(first)
    cache.close()
    assert parse(path.read_bytes()) == summed(counted(first, second), counted(first))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["dynamic.bin"]


def test_what_was_learnt_is_used(tmp_path: Path) -> None:
    """The next session drafts from the file of this one, where the strict thresholds allow it."""
    path = tmp_path / "dynamic.bin"
    cache = NgramCache(n_vocab=10, dynamic=str(path), save=True)
    cache.begin([1, 2, 3, 4, 5, 6] * 4)
    cache.close()
    cache = NgramCache(n_vocab=10, dynamic=str(path))
    history = [0, 1, 2]
    cache.begin(history)
    draft = cache.propose(history, 3, 8)
    assert draft is not None and draft.tokens == [4, 5, 6, 1, 2, 3, 4, 5]


def test_saving_that_fails_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    cache = NgramCache(n_vocab=10, dynamic=str(folder / "d.bin"), save=True)
    cache.begin([1, 2, 3])
    folder.rmdir()
    with caplog.at_level(logging.WARNING, logger="pyspec"):
        cache.close()
    assert "could not be written" in caplog.text and not os.path.exists(folder)
