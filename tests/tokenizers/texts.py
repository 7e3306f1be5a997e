"""Texts that are hard to tokenise, made by hypothesis."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import strategies as st

_SPACES = " \n\t\r\u2581\u00a0\u3000\u2028\u1680\x0b\x0c\x85\x00\x1c"
_WORDS = [
    "Hello", "world", "HELLO", "camelCaseWord", "McDonald", "the", "I'll", "WE'VE", "don't", "it'S", "'re", "''s", "o'clock",
    "Příliš", "žluťoučký", "KŮŇ", "úpěl", "ďábelské", "ódy", "Straße", "İstanbul", "ǅungla", "ﬁne", "ℌ", "ªº",
    "안녕하세요", "한국어", "ㄱㄴ", "你好，世界", "漢字", "日本語テスト", "ｱｲｳ", "ｆｕｌｌ",
    "。、「」", "שלום", "مرحبا", "हिन्दी", "ไทยแลนด์",
    "e\u0301", "n\u0303o", "a\u0308\u0323", "\u200b", "\ufeff", "\u00ad", "\U000e0041", "\ue000", "\uffff", "\ufffd", "\u1c89",
]  # fmt: skip
_EMOJI = ["👩‍👩‍👧‍👦", "🏳️‍🌈", "🇨🇿", "👍🏽", "❤️", "🦙", "1️⃣", "☃", "\u200d", "\ufe0f"]
_NUMBERS = [
    "0",
    "42",
    "123",
    "1234567890",
    "3.14159",
    "1,000,000",
    "-7e+10",
    "²",
    "Ⅷ",
    "①②",
    "٣٤٥",
    "½",
    "2024-01-31",
]
_CODE = [
    "def f(x):\n\treturn x**2\n", "#include <a/b.h>\r\n", "    if (a != b) {\n", "</div>", "https://x.cz/?q=a%20b#c", "<0x0A>",
    "<0x41>", "a_b-c", "$x->y", "/* */", "!!!", "...", "?!", "\\n", "`code`", "~/.cache", "[[1, 2], {}]", "'", '"', "@user",
]  # fmt: skip
_SURROGATES = [b"\xed\xa0\x80", b"\xed\xb0\x80", b"\xed\xa0\xbd\xed\xb8\x80"]
_BROKEN = [
    b"\x80",
    b"\xbf\xbf",
    b"\xc3",
    b"\xe4\xbd",
    b"\xf0\x9f\xa6",
    b"\xff",
    b"\xc0\x80",
    b"\xe0\x80\xaf",
    b"\xf8\x88",
]

# llama.cpp ends the process on a character above U+10FFFF.
_TOO_HIGH = re.compile(rb"\xf4[\x90-\xbf][\x80-\xbf]{2}|[\xf5-\xf7][\x80-\xbf]{3}")


def _utf8(strategy: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    return strategy.map(lambda s: s.encode("utf-8"))


def texts(special: Sequence[bytes] = (), broken: bool = True) -> st.SearchStrategy[bytes]:
    """Bytes of a text put together from difficult parts.

    Args:
        special: texts of special tokens of the vocabulary; they are used whole, cut short and doubled.
        broken: also make parts that are not UTF-8.
    """
    words = _utf8(st.sampled_from([*_WORDS, *_EMOJI, *_NUMBERS, *_CODE]))
    runs = st.builds(lambda c, n: c.encode() * n, st.sampled_from(_SPACES), st.integers(1, 9))
    parts = [words, words, runs, runs, _utf8(st.text(max_size=6)), _utf8(st.text("aZ1 .\n'é漢", max_size=8))]
    if special:
        token = st.sampled_from(list(special))
        parts += [
            token,
            st.builds(lambda t, a, b: t[a : len(t) - b], token, st.integers(0, 2), st.integers(0, 2)),
        ]
    if broken:
        parts += [st.sampled_from(_SURROGATES), st.sampled_from(_BROKEN), st.binary(max_size=5)]
    return st.lists(st.one_of(parts), max_size=10).map(b"".join).filter(lambda b: not _TOO_HIGH.search(b))
