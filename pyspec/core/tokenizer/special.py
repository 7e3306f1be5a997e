"""Cutting special tokens out of a text before the rest is tokenised.

Control, unknown and user-defined tokens are looked for in the raw bytes, longest text first; each one is cut out
everywhere before the next one is tried. A longer token therefore wins over a shorter one that starts further left.
User-defined tokens are always cut out, control and unknown ones only when the caller wants special text parsed.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspec.core.vocab import TokenType, Vocab

_SPACE = b" \t\n\v\f\r"  # what C's isspace() accepts
_SPECIAL = frozenset(int(t) for t in (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED))


class SpecialTokens:
    """The special tokens of one vocabulary. Immutable after construction."""

    def __init__(self, vocab: Vocab) -> None:
        texts = vocab.texts
        found = [i for i, kind in enumerate(vocab.types) if kind in _SPECIAL and texts[i]]
        # Among equally long tokens the order matters only when they overlap; llama.cpp leaves it to an unstable sort.
        found.sort(key=lambda i: -len(texts[i]))
        self._texts = {i: texts[i] for i in found}
        self._strip_right, self._strip_left = _strip_rules(vocab, found)
        self._all = _Candidates(found, self._texts)
        self._always = _Candidates(
            [i for i in found if vocab.types[i] == TokenType.USER_DEFINED], self._texts
        )

    def split(self, data: bytes, parse_special: bool) -> list[int | bytes]:
        """``data`` as a list of token ids and of the (never empty) raw pieces between them."""
        parts: list[int | bytes] = [data] if data else []
        for token in (self._all if parse_special else self._always).present(data):
            text = self._texts[token]
            if any(isinstance(part, bytes) and text in part for part in parts):
                parts = [piece for part in parts for piece in self._cut(part, token, text)]
        return parts

    def _cut(self, part: int | bytes, token: int, text: bytes) -> Iterable[int | bytes]:
        if isinstance(part, int) or text not in part:
            return (part,)
        out: list[int | bytes] = []
        rest = part
        while True:
            at = rest.find(text)
            if at < 0:
                break
            left, rest = rest[:at], rest[at + len(text) :]
            if token in self._strip_left:
                left = left.rstrip(_SPACE)
            if token in self._strip_right:
                rest = rest.lstrip(_SPACE)
            if left:
                out.append(left)
            out.append(token)
        if rest:
            out.append(rest)
        return out


class _Candidates:
    """Finds quickly which of many tokens can occur in a text at all.

    Vocabularies have up to 6,000 special tokens and most texts contain none, so tokens are grouped by their first two
    bytes and a group whose common prefix is absent is dismissed with one search.
    """

    def __init__(self, tokens: list[int], texts: dict[int, bytes]) -> None:
        groups: dict[bytes, list[int]] = {}
        for rank, token in enumerate(tokens):
            groups.setdefault(texts[token][:2], []).append(rank)
        self._tokens = tokens
        self._groups = [
            (_common_prefix([texts[tokens[r]] for r in ranks]), ranks) for ranks in groups.values()
        ]

    def present(self, data: bytes) -> list[int]:
        """Tokens that may occur in ``data``, in the order in which they are to be cut out."""
        ranks = [rank for prefix, group in self._groups if prefix in data for rank in group]
        ranks.sort()
        return [self._tokens[rank] for rank in ranks]


def _common_prefix(texts: list[bytes]) -> bytes:
    first, last = min(texts), max(texts)
    n = 0
    while (
        n < len(first) and first[n] == last[n]
    ):  # last is not shorter here: a prefix of it would sort before it
        n += 1
    return first[:n]


def _strip_rules(vocab: Vocab, special: list[int]) -> tuple[frozenset[int], frozenset[int]]:
    """Tokens that swallow the white space to their right and to their left. Files do not store this; names decide."""
    name = vocab.name.lower()
    if "phi-3" in name or "phi3" in name:
        keep = (b"<unk>", b"<s>", b"<|endoftext|>")
        return frozenset(i for i in special if vocab.texts[i] not in keep), frozenset()
    if "modern-bert" in name:
        return frozenset(), frozenset(i for i in special if vocab.texts[i] == b"[MASK]")
    return frozenset(), frozenset()
