"""The suffix drafter written down plainly: lists of documents, searched from end to end at every step.

Tokens are 0..250 here; ids below 0 are written as 255 + id + 1 in the byte strings that are searched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

SEAM = 64  # tokens that can be undone, and that are repeated after an edit that cannot
MAX_OPEN = 32
LEAST_PRODUCT = 0.02


def encoded(tokens: list[int]) -> bytes:
    return bytes(token if token >= 0 else 256 + token for token in tokens)


def logit(probability: float) -> float:
    p = min(max(probability, 0.001), 0.999)
    return math.log(p / (1 - p))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def prior_logit(match: int, place: int, count: int, total: int, degree: int) -> float:
    """The formula of drafting-theory 4.4."""
    return (
        -1.41
        + 0.83 * math.log(match + 1)
        + 1.43 * math.log(count)
        - 1.67 * math.log(total - count + 1)
        + 0.22 * math.log(degree)
        + 0.16 * (place > 1)
        + 0.63 * min(place - 1, 4) / 4
        + 0.40 * (total == 1)
    )


@dataclass
class SlowBins:
    """Per decile of the estimate: observations, hits, expected hits, each fading by 0.98."""

    n: list[float] = field(default_factory=lambda: [0.0] * 10)
    hits: list[float] = field(default_factory=lambda: [0.0] * 10)
    expected: list[float] = field(default_factory=lambda: [0.0] * 10)

    def shift(self, i: int) -> float:
        if self.n[i] == 0:
            return 0.0
        mean = self.expected[i] / self.n[i]
        return logit((self.hits[i] + 4 * mean) / (self.n[i] + 4)) - logit(mean)

    def observe(self, estimate: float, right: bool) -> None:
        i = min(int(estimate * 10), 9)
        self.n[i] = 0.98 * self.n[i] + 1
        self.hits[i] = 0.98 * self.hits[i] + right
        self.expected[i] = 0.98 * self.expected[i] + estimate


@dataclass
class SlowSource:
    """Documents, the last of which may still grow (`current`), and open guesses."""

    docs: list[bytes] = field(default_factory=list)
    current: bytes | None = None
    bins: SlowBins = field(default_factory=SlowBins)
    open: list[tuple[int, list[tuple[int, float]]]] = field(default_factory=list)

    def followers(self, context: bytes) -> list[int]:
        """Every token that follows an occurrence, oldest first."""
        found = []
        for text in [*self.docs, *([] if self.current is None else [self.current])]:
            at = text.find(context)
            while at >= 0:
                if at + len(context) < len(text):
                    found.append(text[at + len(context)])
                at = text.find(context, at + 1)
        return found

    def walk(
        self, end: bytes, n_text: int, max_draft: int, floor: float, ends: set[int]
    ) -> list[tuple[int, float]]:
        """Tokens with confidence, after the longest suffix of `end` that goes on somewhere."""
        length = len(end)
        while length > 0 and not self.followers(end[-length:]):
            length -= 1
        guess: list[tuple[int, float]] = []
        noted: list[tuple[int, float]] = []
        if length > 0:
            anchor = context = end[-length:]
            product = 1.0
            for place in range(1, max_draft + 1):
                followers = self.followers(context)
                if not followers:
                    if self.current is None or not self.current.endswith(context):
                        break
                    context = anchor
                    followers = self.followers(context)
                counts = {token: followers.count(token) for token in followers}
                most = max(counts.values())
                token = next(token for token in reversed(followers) if counts[token] == most)
                if token > 250:
                    break
                x = prior_logit(length, place, most, len(followers), len(counts))
                estimate = float(np.float32(sigmoid(x)))
                confidence = sigmoid(x + self.bins.shift(min(int(estimate * 10), 9)))
                product *= confidence
                if product < floor:
                    break
                guess.append((token, confidence))
                noted.append((token, estimate))
                if token in ends:
                    break
                context += bytes([token])
        self.open = [(start, rest) for start, rest in self.open if start != n_text]
        if noted:
            self.open = [*self.open, (n_text, noted)][-MAX_OPEN:]
        return guess

    def observe(self, token: int) -> None:
        still = []
        for start, rest in self.open:
            self.bins.observe(rest[0][1], rest[0][0] == token)
            if rest[0][0] == token and rest[1:]:
                still.append((start, rest[1:]))
        self.open = still


class SlowSuffix:
    """The same calls as `pyspec.core.suffix.SuffixIndex`, memory without bound."""

    def __init__(self, max_draft: int = 31, end_tokens: tuple[int, ...] = ()) -> None:
        self.max_draft = max_draft
        self.ends = set(end_tokens)
        self.sequence: list[int] = []
        self.n_undoable = 0
        self.own = SlowSource(current=b"")
        self.corpora: list[SlowSource] = []
        self.reach = 0  # how much of the end corpora have followed
        self.n_noted = 0  # how much of that they can take back

    def follow(self, start: int, tokens: list[int]) -> None:
        n = 0
        while n < len(tokens) and start + n < len(self.sequence) and self.sequence[start + n] == tokens[n]:
            n += 1
        self.truncate(start + n)
        for token in tokens[n:]:
            self._index([token])
            self.sequence.append(token)
            for source in (self.own, *self.corpora):
                source.observe(encoded([token])[0])
            self.reach += 1
            self.n_noted = min(self.n_noted + 1, SEAM)

    def truncate(self, n_tokens: int) -> None:
        taken = len(self.sequence) - n_tokens
        if taken <= 0:
            return
        self._forget_open()
        del self.sequence[n_tokens:]
        if taken <= self.n_undoable:
            assert self.own.current is not None
            self.own.current = self.own.current[:-taken]
            self.n_undoable -= taken
            if taken <= self.n_noted:
                self.reach -= taken
                self.n_noted -= taken
            else:
                self._restart_corpora()
        else:
            self._restart_corpora()
            self._new_document()

    def remove(self, begin: int, end: int) -> None:
        if end >= len(self.sequence):
            self.truncate(begin)
        elif begin < end:
            self._forget_open()
            del self.sequence[begin:end]
            self._restart_corpora()
            self._new_document()

    def add_document(self, tokens: list[int]) -> None:
        if tokens:
            self._finish()
            self._index(tokens)
            self._new_document()

    def add_corpus(self, documents: list[list[int]]) -> None:
        self.corpora.append(SlowSource([encoded(tokens) for tokens in documents if tokens]))
        self._restart_corpora()

    def guess(self, limit: int, min_product: float) -> tuple[list[int], list[float]]:
        floor = min(min_product, LEAST_PRODUCT)
        n = len(self.sequence)
        assert self.own.current is not None
        walks = [self.own.walk(self.own.current, n, self.max_draft, floor, self.ends)]
        seen = encoded(self.sequence[n - self.reach :])
        walks += [corpus.walk(seen, n, self.max_draft, floor, self.ends) for corpus in self.corpora]
        best: list[tuple[int, float]] = []
        most = 0.0
        for walk in walks:
            product, total = 1.0, 0.0
            kept = []
            for token, confidence in walk[:limit]:
                product *= confidence
                if product < min_product:
                    break
                total += product
                kept.append((token, confidence))
            if total > most + 1e-9:
                best, most = kept, total
        return [token for token, _ in best], [confidence for _, confidence in best]

    def _index(self, tokens: list[int]) -> None:
        assert self.own.current is not None
        self.own.current += encoded(tokens)
        self.n_undoable = min(self.n_undoable + len(tokens), SEAM)

    def _finish(self) -> None:
        if self.own.current:
            self.own.docs.append(self.own.current)
        self.own.current = b""
        self.n_undoable = 0

    def _new_document(self) -> None:
        self._finish()
        self._index(self.sequence[-SEAM:])

    def _restart_corpora(self) -> None:
        self.reach = min(SEAM, len(self.sequence))
        self.n_noted = 0

    def _forget_open(self) -> None:
        for source in (self.own, *self.corpora):
            source.open = []
