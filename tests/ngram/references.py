"""The n-gram drafters as their rules are written, with nothing incremental: every draft is found by looking through the
whole history. Slow, short, and sharing nothing with the core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence


class Reference:
    """The calls of a drafter on a plain list."""

    def __init__(self) -> None:
        self.history: list[int] = []
        self.pending: list[int] = []

    def begin(self, tokens: list[int]) -> None:
        n = 0
        while n < min(len(tokens), len(self.history)) and tokens[n] == self.history[n]:
            n += 1
        self.cut(n)
        self.extend(tokens[n:])

    def propose(self, last: int, limit: int) -> list[int]:
        self.pending = self.draft(last, limit)[:limit] if limit > 0 else []
        return self.pending

    def commit(
        self, kept: list[int], emitted: list[int], n_own_draft: int = 0, n_own_accepted: int = 0
    ) -> None:
        if emitted and self.pending:
            agreed = 0
            while agreed < min(len(emitted), len(self.pending)) and emitted[agreed] == self.pending[agreed]:
                agreed += 1
            self.followed(len(self.pending), len(emitted), agreed)
        self.pending = []
        if n_own_draft:
            self.verified(n_own_draft, n_own_accepted)
        self.extend(kept)

    def truncate(self, n: int, withdrawn: bool = False) -> None:
        self.pending = []
        self.cut(min(n, len(self.history)), withdrawn)

    def shift(self, p0: int, p1: int) -> None:
        tail = self.history[p1:]
        self.pending = []
        self.cut(p1, True)
        self.cut(p0)
        self.extend(tail)

    # What a drafter adds.

    def draft(self, last: int, limit: int) -> list[int]:
        raise NotImplementedError

    def cut(self, n: int, withdrawn: bool = False) -> None:
        self.pending = []
        del self.history[n:]

    def extend(self, tokens: Sequence[int]) -> None:
        self.history += tokens

    def followed(self, n: int, n_emitted: int, agreed: int) -> None:
        pass

    def verified(self, n_draft: int, n_accepted: int) -> None:
        pass


class Simple(Reference):
    """Section 2.1 of the drafter reference."""

    def __init__(self, n: int, m: int) -> None:
        super().__init__()
        self.n, self.m = n, m

    def draft(self, last: int, limit: int) -> list[int]:
        t, n, m = self.history, self.n, self.m
        length = len(t)
        if length <= n + m + 1:
            return []
        key = [*t[length - n + 1 :], last] if n > 1 else [last]
        for j in range(length - n - 1, 0, -1):
            if t[j : j + n] == key:
                count = min(m, length - (j + n))
                return [] if count < n else t[j + n : j + n + count]
        return []


class _Map(Reference):
    """Keys with lengths that are learnt."""

    def __init__(self, n: int, m: int, min_hits: int = 1) -> None:
        super().__init__()
        self.n, self.m, self.min_hits = n, m, min_hits
        self.lengths: dict[tuple[int, ...], int] = {}
        self.source: tuple[int, ...] | None = None

    def key(self, last: int) -> tuple[int, ...] | None:
        if len(self.history) + 1 < self.n:
            return None
        return (*self.history[len(self.history) - self.n + 1 :], last)

    def starts(self, key: tuple[int, ...]) -> list[int]:
        return [j for j in self.candidates() if tuple(self.history[j : j + self.n]) == key]

    def candidates(self) -> range:
        return range(max(0, len(self.history) - self.n - self.m + 1))

    def value(self, start: int) -> tuple[int, ...]:
        return tuple(self.history[start + self.n : start + self.n + self.m])

    def sources(self) -> set[tuple[int, ...]]:
        """What may have a length now."""
        raise NotImplementedError

    def cut(self, n: int, withdrawn: bool = False) -> None:
        super().cut(n)
        self.source = None
        alive = self.sources()
        self.lengths = {source: length for source, length in self.lengths.items() if source in alive}

    def followed(self, n: int, n_emitted: int, agreed: int) -> None:
        if self.source is None:
            return
        length = self.lengths.get(self.source, self.m)
        if agreed < n:
            if agreed < n_emitted:
                length = max(1, agreed)
        elif n >= length:
            length = min(self.m, 2 * length)
        self.lengths[self.source] = length


class MapK(_Map):
    def sources(self) -> set[tuple[int, ...]]:
        return {tuple(self.history[j : j + self.n]) for j in self.candidates()}

    def draft(self, last: int, limit: int) -> list[int]:
        self.source = None
        key = self.key(last)
        starts = [] if key is None else self.starts(key)
        if key is None or len(starts) < self.min_hits:
            return []
        self.source = key
        return list(self.value(starts[-1])[: self.lengths.get(key, self.m)])


class MapK4v(_Map):
    def values(self, key: tuple[int, ...]) -> dict[tuple[int, ...], int]:
        """The first four distinct values, with their counts."""
        found: dict[tuple[int, ...], int] = {}
        for start in self.starts(key):
            value = self.value(start)
            if value in found or len(found) < 4:
                found[value] = found.get(value, 0) + 1
        return found

    def sources(self) -> set[tuple[int, ...]]:
        keys = {tuple(self.history[j : j + self.n]) for j in self.candidates()}
        return {key + value for key in keys for value in self.values(key)}

    def draft(self, last: int, limit: int) -> list[int]:
        self.source = None
        key = self.key(last)
        if key is None or len(starts := self.starts(key)) < self.min_hits:
            return []
        values = self.values(key)
        best = max(values, key=lambda value: values[value])
        if values[best] < 2 * (len(starts) - values[best]):
            return []
        self.source = key + best
        return list(best[: self.lengths.get(self.source, self.m)])


def token_hash(tokens: Sequence[int]) -> int:
    h = 0
    for token in tokens:
        h = (h ^ ((token + 1) & 0xFFFFFFFF)) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        h ^= h >> 32
    return h


class Mod(Reference):
    def __init__(self, n: int, n_min: int, n_max: int, entries: int) -> None:
        super().__init__()
        self.n, self.n_min, self.n_max, self.entries = n, n_min, n_max, entries
        self.table: dict[int, tuple[int, int]] = {}  # place -> (check, token)
        self.low = 0
        self.resets = 0

    def place(self, ngram: Sequence[int]) -> tuple[int, int]:
        h = token_hash(ngram)
        return ((h >> 32) * self.entries) >> 32, h & 0xFFFFFFFF

    def enter(self, first: int) -> None:
        t, n = self.history, self.n
        for j in range(max(0, first), len(t) - n):
            place, check = self.place(t[j : j + n])
            self.table[place] = check, t[j + n]

    def extend(self, tokens: Sequence[int]) -> None:
        before = len(self.history)
        self.history += tokens
        self.enter(before - self.n)

    def reset(self) -> None:
        self.table = {}
        self.low = 0
        self.resets += 1
        self.enter(0)

    def begin(self, tokens: list[int]) -> None:
        super().begin(tokens)
        if len(self.table) > self.entries // 4:
            self.reset()

    def verified(self, n_draft: int, n_accepted: int) -> None:
        self.low = self.low + 1 if n_accepted / n_draft < 0.25 else 0
        if self.low == 5:
            self.reset()

    def draft(self, last: int, limit: int) -> list[int]:
        if len(self.history) + 1 < self.n:
            return []
        window = [*self.history[len(self.history) - self.n + 1 :], last]
        found: list[int] = []
        while len(found) < self.n_max:
            place, check = self.place(window[-self.n :])
            known_check, token = self.table.get(place, (-1, -1))
            if known_check != check:
                break
            found.append(token)
            window.append(token)
        return found if len(found) >= self.n_min else []


class Counts:
    """n-gram -> token -> count, and the token that counts as the most frequent one."""

    def __init__(self) -> None:
        self.counts: dict[tuple[int, ...], dict[int, int]] = {}
        self.best: dict[tuple[int, ...], int] = {}

    def add(self, key: tuple[int, ...], token: int) -> None:
        found = self.counts.setdefault(key, {})
        found[token] = found.get(token, 0) + 1
        if found[token] >= found.get(self.best.get(key, token), 0):
            self.best[key] = token

    def count(self, history: Sequence[int], first: int = 0) -> None:
        """The n-grams that token `first` and those after it follow."""
        for i in range(first, len(history)):
            for size in range(1, min(4, i) + 1):
                self.add(tuple(history[i - size : i]), history[i])

    @classmethod
    def of(cls, counts: dict[tuple[int, ...], dict[int, int]]) -> Counts:
        made = cls()
        made.counts = {key: dict(found) for key, found in counts.items()}
        made.best = {
            key: min(token for token in found if found[token] == max(found.values()))
            for key, found in counts.items()
        }
        return made


LAX = {1: (2, 66), 2: (2, 50), 3: (1, 50), 4: (1, 50)}
STRICT = {1: (4, 75), 2: (3, 66), 3: (2, 66), 4: (2, 66)}


class Cache(Reference):
    def __init__(
        self,
        n_max: int,
        dynamic: dict[tuple[int, ...], dict[int, int]] | None = None,
        static: dict[tuple[int, ...], dict[int, int]] | None = None,
        learn: bool = False,
    ) -> None:
        super().__init__()
        self.n_max, self.learn = n_max, learn
        self.dynamic = Counts.of(dynamic or {})
        self.static = Counts.of(static or {})

    def cut(self, n: int, withdrawn: bool = False) -> None:
        if self.learn and not withdrawn:
            self.dynamic.count(self.history, n)
        super().cut(n)

    def context(self) -> Counts:
        counts = Counts()
        counts.count(self.history)
        return counts

    def draft(self, last: int, limit: int) -> list[int]:
        text = [*self.history, last]
        if len(text) < 4:
            return []
        context, found = self.context(), []
        while len(found) < self.n_max:
            token = self.next_token(context, text)
            if token is None:
                break
            found.append(token)
            text.append(token)
        return found

    def next_token(self, context: Counts, text: list[int]) -> int | None:
        known = self.static.counts.get(tuple(text[-2:]), {})
        for token in (*self.tried(context, LAX, text, known), *self.tried(self.dynamic, STRICT, text, known)):
            return token
        if known:
            best = self.static.best[tuple(text[-2:])]
            if sum(known.values()) >= 2 and 100 * known[best] >= 50 * sum(known.values()):
                return best
        return None

    @staticmethod
    def tried(
        table: Counts, thresholds: dict[int, tuple[int, int]], text: list[int], known: dict[int, int]
    ) -> Iterator[int]:
        for size in (4, 3, 2, 1):
            key = tuple(text[-size:])
            if key not in table.counts:
                continue
            found = table.counts[key]
            score = {token: n * (100 * known[token] if token in known else 1) for token, n in found.items()}
            tied = [token for token in score if score[token] == max(score.values())]
            best = table.best[key] if table.best[key] in tied else min(tied)
            samples, percent = thresholds[size]
            total = sum(found.values())
            if total >= samples and 100 * found[best] >= percent * total:
                yield best
