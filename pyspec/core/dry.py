"""DRY's sequence breakers: from strings to token sequences of one vocabulary."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from pyspec.errors import OptionError

if TYPE_CHECKING:
    from pyspec.core.tokenizer.base import Tokenizer

#: A breaker that begins inside a token is followed over at most this many further ones.
MAX_TAIL = 20


class PieceSearch:
    """Which tokens, alone or in a row, spell a string. Plain data once made; threads may share it.

    Making one takes as long as asking for the text of every token (tenths of a second for 150,000); answers are kept.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        pieces = [tokenizer.piece(token, special=True) for token in range(tokenizer.vocab.n_tokens)]
        self._text = b"".join(pieces)
        self._ends = list(accumulate(map(len, pieces)))
        self._known: dict[str, list[list[int]]] = {}

    def sequences(self, text: str) -> list[list[int]]:
        """Token sequences that contain the text: every token that contains it alone, and for a text of several bytes
        every token that ends with its beginning, followed by the usual tokens of the rest.
        """
        if text not in self._known:
            data = text.encode("utf-8", "surrogatepass")
            alone = {token for token, _ in self._occurrences(data)}
            found = [[token] for token in sorted(alone)]
            for n_head in range(1, len(data)):
                tail = self._tail(data[n_head:])
                if tail:
                    heads = self._ending_with(data[:n_head])
                    found += [[token, *tail] for token in heads if token not in alone]
            self._known[text] = found
        return self._known[text]

    def _occurrences(self, data: bytes) -> list[tuple[int, int]]:
        """(token, place behind the match) of every match that lies within one token."""
        found = []
        at = self._text.find(data)
        while at >= 0:
            token = bisect_right(self._ends, at)
            if at + len(data) <= self._ends[token]:
                found.append((token, at + len(data)))
            at = self._text.find(data, at + 1)
        return found

    def _ending_with(self, data: bytes) -> list[int]:
        return [token for token, end in self._occurrences(data) if end == self._ends[token]]

    def _tail(self, rest: bytes) -> list[int]:
        """The usual tokens of the rest of a breaker. Where they do not spell it (a space in front of every text, a piece
        of a character), the tokens of its bytes; nothing if there are none.
        """
        tokens = self._tokenizer.encode(rest, add_special=False)
        if self._tokenizer.decode(tokens, continuation=True) != rest:
            single = [self._single(value) for value in rest]
            tokens = [token for token in single if token is not None]
            if len(tokens) < len(rest):
                return []
        return tokens[:MAX_TAIL]

    def _single(self, value: int) -> int | None:
        """The token whose text is this byte."""
        for token, _ in self._occurrences(bytes([value])):
            start = self._ends[token - 1] if token else 0
            if self._ends[token] - start == 1:
                return token
        return None


def breaker_sequences(
    breakers: Sequence[str | Sequence[int]], search: PieceSearch | None
) -> list[Sequence[int]]:
    """Breakers as token sequences. Strings need `search`; a sequence of ids is taken as it is.

    OptionError for an empty breaker, and for a string without `search`.
    """
    if isinstance(breakers, str):
        raise OptionError(
            f"dry_sequence_breakers is {breakers!r}, expected a list of strings or of lists of token ids"
        )
    sequences: list[Sequence[int]] = []
    for breaker in breakers:
        if not len(breaker):
            raise OptionError("dry_sequence_breakers holds an empty breaker; leave it out")
        if not isinstance(breaker, str):
            sequences.append(breaker)
        elif search is None:
            raise OptionError(
                f"the DRY breaker {breaker!r} is a string: pass Sampler(..., model=) so that its tokens can be found, or "
                "give lists of token ids as dry_sequence_breakers"
            )
        else:
            sequences += search.sequences(breaker)
    return sequences
