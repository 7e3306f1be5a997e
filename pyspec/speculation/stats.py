"""Numbers about one generation. Rounds are logged as they happen; everything else is worked out afterwards.

Counting from the log, after the final length of the answer is known, keeps every counter consistent with the
text: tokens that a stop removed are in no counter.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspec.speculation.chain import Chain


@dataclass(slots=True)
class DrafterStats:
    """One drafter in one generation. All lengths in tokens.

    calls: how often it was asked. drafts: how often it answered. drafted, accepted: tokens, after cuts.
    proposed_per_position[i], per_position[i]: drafts that had a token at place i, and those where it was
    accepted. ms: time spent proposing.
    """

    calls: int = 0
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    proposed_per_position: list[int] = field(default_factory=list)
    per_position: list[int] = field(default_factory=list)
    ms: float = 0.0

    @property
    def acceptance(self) -> float:
        """Accepted part of the drafted tokens, 0 when there were none."""
        return self.accepted / self.drafted if self.drafted else 0.0


@dataclass(slots=True)
class Stats:
    """One generation.

    rounds: decodes of the target after the prompt; verifications of them had a draft. Every token of the
    answer is either accepted (drafted, and the target chose it too) or chosen by the target alone: accepted +
    chosen is the length of the answer. Draft tokens behind a stop are not counted as drafted.
    """

    rounds: int = 0
    verifications: int = 0
    drafted: int = 0
    accepted: int = 0
    chosen: int = 0
    drafters: dict[str, DrafterStats] = field(default_factory=dict)
    active_drafters: list[str] = field(default_factory=list)
    parked_drafters: dict[str, str] = field(default_factory=dict)
    rollback_mode: str = ""
    prompt_tokens_reused: int = 0
    prompt_tokens_evaluated: int = 0
    prompt_ms: float = 0.0
    draft_ms: float = 0.0
    verify_ms: float = 0.0
    accept_ms: float = 0.0
    generation_ms: float = 0.0
    tokens_per_second: float = 0.0

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens gained per verification: accepted drafts and the target's own."""
        return 1.0 + self.accepted / self.verifications if self.verifications else 1.0

    @property
    def acceptance(self) -> float:
        """Accepted part of the drafted tokens, 0 when there were none."""
        return self.accepted / self.drafted if self.drafted else 0.0


class RoundLog:
    """(owner, drafted, accepted, emitted) of each round."""

    __slots__ = ("_rounds",)

    def __init__(self) -> None:
        self._rounds: list[tuple[int, int, int, int]] = []

    def add(self, owner: int, n_draft: int, n_accepted: int, n_emitted: int) -> None:
        self._rounds.append((owner, n_draft, n_accepted, n_emitted))

    def count(self, stats: Stats, chain: Chain, n_first: int, n_tokens: int) -> None:
        """Fill stats for an answer of n_tokens tokens, of which up to n_first came before the first round."""
        counters = [DrafterStats(calls=member.calls, ms=1e3 * member.seconds) for member in chain.members]
        left = max(0, n_tokens - n_first)
        stats.chosen = min(n_first, n_tokens)
        for owner, n_draft, n_accepted, n_emitted in self._rounds:
            stats.rounds += 1
            kept = min(left, n_emitted)
            left -= kept
            accepted = min(n_accepted, kept)
            stats.chosen += kept - accepted
            if n_draft == 0:
                continue
            if kept < n_accepted or n_emitted == n_accepted:
                n_draft = accepted  # a stop cut the draft here; what follows was not judged
            stats.verifications += 1
            _count_draft(counters[owner], n_draft, accepted)
        for member, counter in zip(chain.members, counters, strict=True):
            stats.drafters[member.name] = counter
            stats.drafted += counter.drafted
            stats.accepted += counter.accepted
        stats.active_drafters = chain.active
        stats.parked_drafters = chain.parked


def _count_draft(counter: DrafterStats, n_draft: int, n_accepted: int) -> None:
    counter.drafts += 1
    counter.drafted += n_draft
    counter.accepted += n_accepted
    for positions, n in ((counter.proposed_per_position, n_draft), (counter.per_position, n_accepted)):
        if len(positions) < n_draft:
            positions.extend([0] * (n_draft - len(positions)))
        for i in range(n):
            positions[i] += 1
