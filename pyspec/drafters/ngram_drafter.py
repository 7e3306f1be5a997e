"""What the n-gram drafters share: the protocol of drafters over a table of the core.

Confidence. Each proposal is remembered until the tokens that follow it exist, whoever drafted them, and is counted up to
its first error. A token's confidence is the rate at which tokens of the same evidence and position came true,
smoothed towards a fixed estimate from match length and counts (csrc/history/acceptance_record.h).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspec.core.ngram import NgramTable
from pyspec.drafters.base import Draft, Drafter, Verdict


class NgramDrafter(Drafter):
    """Drafter from a table that follows the committed history. Owns the table; needs no model."""

    is_text = True

    def __init__(self, table: NgramTable) -> None:
        self.table = table
        self.max_draft = table.max_draft

    def begin(self, tokens: Sequence[int]) -> None:
        self.table.begin(tokens)

    def propose(self, history: Sequence[int], last: int, limit: int) -> Draft | None:
        found = self.table.propose(history, last, limit)
        if found is None:
            return None
        return Draft(found[0], self.name, None, None, found[1])

    def commit(self, verdict: Verdict, rows: Any | None, mine: bool) -> None:
        if mine:
            self.table.commit(verdict.kept, verdict.emitted, len(verdict.draft), verdict.n_accepted)
        else:
            self.table.commit(verdict.kept, verdict.emitted)

    def truncate(self, n_tokens: int) -> None:
        self.table.truncate(n_tokens)

    def shift(self, p0: int, p1: int, delta: int) -> None:
        self.table.remove(p0, p1)

    def checkpoint(self) -> int:
        return self.table.n_tokens

    def restore(self, token: int) -> None:
        self.table.truncate(token, withdrawn=True)

    def audit(self, history: Sequence[int]) -> str | None:
        own = self.table.history()
        if own != list(history):
            return f"{self.name} has {len(own)} tokens that are not the {len(history)} committed"
        return None

    @property
    def memory_bytes(self) -> int:
        """Bytes of its tables now."""
        return self.table.memory_bytes

    def close(self) -> None:
        self.table.close()
