"""The answer under construction: tokens, their bytes, their text, and where it stops.

Everything is decided token by token, so that blocks of accepted tokens stop exactly where single tokens would
have.
"""

from __future__ import annotations

import codecs
from bisect import bisect_right
from collections.abc import Callable

from pyspec.llm.results import TokenLogprob
from pyspec.llm.stop import StopStrings


class Answer:
    """Tokens so far. piece(token) gives a token's bytes; end_ids are tokens that end the answer and do not
    belong to it.

    After a stop string the answer keeps the tokens that lie wholly before it; `text` ends exactly there, even
    when the stop string began in the middle of a token.
    """

    __slots__ = (
        "_cut", "_decoder", "_ends", "_piece", "_sent_bytes", "_sent_tokens", "_stops", "data", "end_ids",
        "logprobs", "stopped_by", "tokens",
    )  # fmt: skip

    def __init__(
        self, piece: Callable[[int], bytes], stops: StopStrings, end_ids: frozenset[int], with_logprobs: bool
    ) -> None:
        self.tokens: list[int] = []
        self.logprobs: list[TokenLogprob] | None = [] if with_logprobs else None
        self.data = bytearray()
        self.end_ids = end_ids
        #: The stop string or end token that ended the answer.
        self.stopped_by: str | int | None = None
        self._piece = piece
        self._stops = stops
        self._ends: list[int] = []  # _ends[i]: bytes up to and including token i
        self._cut = -1
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._sent_bytes = 0
        self._sent_tokens = 0

    def push(self, token: int) -> bool:
        """Add one token. False: it ended the answer, which has been cut; nothing may be added any more."""
        if token in self.end_ids:
            self.stopped_by = token
            return False
        data = self.data
        n_old = len(data)
        data += self._piece(token)
        self.tokens.append(token)
        self._ends.append(len(data))
        if self._stops:
            found = self._stops.find(data, n_old)
            if found is not None:
                self._cut, self.stopped_by = found
                n = bisect_right(self._ends, self._cut)
                del self.tokens[n:], self._ends[n:], data[self._cut :]
                return False
        return True

    def match_logprobs(self) -> None:
        """Drop the logprobs of tokens that a stop removed."""
        if self.logprobs is not None:
            del self.logprobs[len(self.tokens) :]

    @property
    def text(self) -> str:
        """The whole text; bytes that are no UTF-8 become U+FFFD."""
        return self.data.decode("utf-8", "replace")

    def release(self, final: bool) -> tuple[str, list[int], list[TokenLogprob] | None]:
        """Text, tokens and logprobs that are certain and were not released before. final: no more will come.

        The texts of all releases put together are `text`; nothing released is ever taken back.
        """
        n = len(self.data) if final or not self._stops else self._stops.safe_length(self.data)
        text = self._decoder.decode(bytes(self.data[self._sent_bytes : n]), final)
        self._sent_bytes = n
        first = self._sent_tokens
        until = len(self.tokens) if final else bisect_right(self._ends, n)
        self._sent_tokens = until
        logprobs = None if self.logprobs is None else self.logprobs[first:until]
        return text, self.tokens[first:until], logprobs
