"""ngram-simple: copy what followed the last occurrence of the current n tokens.

Rule (the one of llama.cpp's drafter of the same name). With L history tokens t[0..L-1], the key is the last
n-1 of them and the last sampled token. Look for the key at starts L-n-1 down to 1; the first hit decides. The
draft is what follows it, at most m tokens; fewer than n are not worth a verification, and then no older hit
is tried. Histories of n+m+1 tokens or fewer give nothing.

The scan would cost L*n comparisons every round, so starts are indexed by the hash of the n tokens there:
`_newest` maps a hash to its latest start, `_older[j]` leads from start j to the one before it with the same
hash. Committing a token adds one entry, cutting the history takes entries back in reverse. Hashes only
nominate; tokens decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspec.drafters.base import Draft, Drafter, Verdict, common_prefix


class NgramSimple(Drafter):
    """Drafter from the session's own text. Owns an index of the committed history; needs no model."""

    name = "ngram-simple"
    priority = 10

    def __init__(self, n: int = 12, m: int = 48) -> None:
        self.n = n
        self.m = m
        self.max_draft = m
        self._tokens: list[int] = []
        self._newest: dict[int, int] = {}
        self._older: list[int] = []

    def begin(self, tokens: Sequence[int]) -> None:
        self._follow(tokens)

    def propose(self, history: Sequence[int], last: int, limit: int) -> Draft | None:
        length = len(history)
        if length != len(self._tokens):
            self._follow(history)
        n = self.n
        if length <= n + self.m + 1:
            return None
        key = [*history[length - n + 1 :], last] if n > 1 else [last]
        start = self._find(key, length - n - 1)
        if start < 1:
            return None
        begin = start + n
        count = min(self.m, length - begin)
        if count < n:
            return None
        return Draft(self._tokens[begin : begin + count], self.name)

    def commit(self, verdict: Verdict, rows: Any | None, mine: bool) -> None:
        self._extend(verdict.kept)

    def truncate(self, n_tokens: int) -> None:
        tokens, n = self._tokens, self.n
        newest, older = self._newest, self._older
        while len(older) > max(0, n_tokens - n + 1):
            start = len(older) - 1
            key = hash(tuple(tokens[start : start + n]))
            before = older.pop()
            if before < 0:
                del newest[key]
            else:
                newest[key] = before
        del tokens[n_tokens:]

    def checkpoint(self) -> int:
        return len(self._tokens)

    def restore(self, token: int) -> None:
        self.truncate(token)

    def audit(self, history: Sequence[int]) -> str | None:
        if self._tokens != list(history):
            return f"ngram-simple has {len(self._tokens)} tokens that are not the {len(history)} committed"
        if len(self._older) != max(0, len(self._tokens) - self.n + 1):
            return f"ngram-simple has {len(self._older)} index entries for {len(self._tokens)} tokens"
        return None

    def close(self) -> None:
        self._tokens, self._newest, self._older = [], {}, []

    def _find(self, key: list[int], newest_allowed: int) -> int:
        tokens, n, older = self._tokens, self.n, self._older
        start = self._newest.get(hash(tuple(key)), -1)
        while start >= 0 and (start > newest_allowed or tokens[start : start + n] != key):
            start = older[start]
        return start

    def _follow(self, tokens: Sequence[int]) -> None:
        agreed = common_prefix(self._tokens, tokens if isinstance(tokens, list) else list(tokens))
        self.truncate(agreed)
        self._extend(tokens[agreed:])

    def _extend(self, more: Sequence[int]) -> None:
        tokens, n = self._tokens, self.n
        newest, older = self._newest, self._older
        tokens.extend(more)
        for start in range(len(older), len(tokens) - n + 1):
            key = hash(tuple(tokens[start : start + n]))
            older.append(newest.get(key, -1))
            newest[key] = start
