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

    calls: how often it was asked. drafts: how often its answer was verified, accepted_drafts: of those, with a
    token accepted. drafted, accepted: tokens, after cuts. proposed_per_position[i], per_position[i]: drafts that
    had a token at place i, and those where it was accepted. Times in milliseconds: ms proposing, begin_ms reading
    the prompt, commit_ms following what the target kept.
    """

    calls: int = 0
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    proposed_per_position: list[int] = field(default_factory=list)
    per_position: list[int] = field(default_factory=list)
    ms: float = 0.0
    begin_ms: float = 0.0
    commit_ms: float = 0.0
    accepted_drafts: int = 0

    @property
    def acceptance(self) -> float:
        """Accepted part of the drafted tokens, 0 when there were none."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens that a verification of its drafts gave, the target's own included; 1 without drafts."""
        return 1.0 + self.accepted / self.drafts if self.drafts else 1.0

    @property
    def acceptance_per_position(self) -> list[float]:
        """Of all its verified drafts, the part whose token at place i was accepted."""
        return [n / self.drafts for n in self.per_position]

    @property
    def conditional_acceptance(self) -> list[float]:
        """Of the drafts that had a token at place i and were right up to there, the part where it was accepted."""
        found, reached = [], self.drafts
        for place, accepted in enumerate(self.per_position):
            proposed = min(reached, self.proposed_per_position[place])
            found.append(accepted / proposed if proposed else 0.0)
            reached = accepted
        return found

    def add(self, other: DrafterStats) -> None:
        """Count another generation in."""
        for name in (
            "calls", "drafts", "accepted_drafts", "drafted", "accepted", "ms", "begin_ms", "commit_ms",
        ):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for mine, theirs in (
            (self.proposed_per_position, other.proposed_per_position),
            (self.per_position, other.per_position),
        ):
            mine.extend([0] * (len(theirs) - len(mine)))
            for place, n in enumerate(theirs):
                mine[place] += n


@dataclass(slots=True)
class ControllerStats:
    """What the controller believed and decided.

    cost_ms: {rows: milliseconds} of a decode, as believed at the end. lengths[k]: rounds with k drafted tokens.
    rests: rounds in which a drafter was left out because it had lost time. saved_ms: estimated time saved against
    plain decoding, negative for a loss. bank_ms: what may still be lost.
    """

    cost_ms: dict[int, float] = field(default_factory=dict)
    lengths: dict[int, int] = field(default_factory=dict)
    rests: int = 0
    saved_ms: float = 0.0
    bank_ms: float = 0.0

    def add(self, other: ControllerStats) -> None:
        """Count a later generation in."""
        self.cost_ms = dict(other.cost_ms)
        for k, n in other.lengths.items():
            self.lengths[k] = self.lengths.get(k, 0) + n
        self.rests += other.rests
        self.saved_ms += other.saved_ms
        self.bank_ms = other.bank_ms


@dataclass(slots=True)
class Stats:
    """One generation, or several added up.

    rounds: decodes of the target after the prompt; verifications of them had a draft. Every token of the
    answer is either accepted (drafted, and the target chose it too) or chosen by the target alone: accepted +
    chosen is the length of the answer. Draft tokens behind a stop are not counted as drafted. acceptance_rule:
    how drafts were judged. controller: None when lengths were fixed. generations: how many these numbers are of.
    context_rolls: how often the context was full and rolled. timed_tokens: those that generation_ms is the time of, all
    but the first of each answer, which comes with the prompt.
    """

    rounds: int = 0
    verifications: int = 0
    drafted: int = 0
    accepted: int = 0
    chosen: int = 0
    context_rolls: int = 0
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
    timed_tokens: int = 0
    tokens_per_second: float = 0.0
    acceptance_rule: str = "match"
    controller: ControllerStats | None = None
    generations: int = 1

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens gained per verification: accepted drafts and the target's own."""
        return 1.0 + self.accepted / self.verifications if self.verifications else 1.0

    @property
    def acceptance(self) -> float:
        """Accepted part of the drafted tokens, 0 when there were none."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def per_position(self) -> list[int]:
        """Accepted tokens by place in the draft, of all drafters together."""
        longest = max((len(drafter.per_position) for drafter in self.drafters.values()), default=0)
        found = [0] * longest
        for drafter in self.drafters.values():
            for place, n in enumerate(drafter.per_position):
                found[place] += n
        return found

    @property
    def draft_overhead(self) -> float:
        """Part of the generation's time that went into drafting."""
        return self.draft_ms / self.generation_ms if self.generation_ms > 0 else 0.0

    def add(self, other: Stats) -> None:
        """Count another generation in: counters and times add up, names and modes are the newest."""
        for name in (
            "rounds", "verifications", "drafted", "accepted", "chosen", "prompt_tokens_reused",
            "prompt_tokens_evaluated", "prompt_ms", "draft_ms", "verify_ms", "accept_ms", "generation_ms",
            "generations", "context_rolls", "timed_tokens",
        ):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name, drafter in other.drafters.items():
            self.drafters.setdefault(name, DrafterStats()).add(drafter)
        self.active_drafters = list(other.active_drafters)
        self.parked_drafters = dict(other.parked_drafters)
        self.rollback_mode, self.acceptance_rule = other.rollback_mode, other.acceptance_rule
        if other.controller is not None:
            if self.controller is None:
                self.controller = ControllerStats()
            self.controller.add(other.controller)
        seconds = self.generation_ms / 1e3
        self.tokens_per_second = self.timed_tokens / seconds if seconds > 0 else 0.0


class RoundLog:
    """(owner, drafted, accepted, emitted) of each round."""

    __slots__ = ("_rounds",)

    def __init__(self) -> None:
        self._rounds: list[tuple[int, int, int, int]] = []

    def add(self, owner: int, n_draft: int, n_accepted: int, n_emitted: int) -> None:
        self._rounds.append((owner, n_draft, n_accepted, n_emitted))

    def count(self, stats: Stats, chain: Chain, n_first: int, n_tokens: int) -> None:
        """Fill stats for an answer of n_tokens tokens, of which up to n_first came before the first round."""
        counters = [
            DrafterStats(
                calls=member.calls,
                ms=1e3 * member.seconds,
                begin_ms=1e3 * member.begin_seconds,
                commit_ms=1e3 * member.commit_seconds,
            )
            for member in chain.members
        ]
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
    counter.accepted_drafts += n_accepted > 0
    for positions, n in ((counter.proposed_per_position, n_draft), (counter.per_position, n_accepted)):
        if len(positions) < n_draft:
            positions.extend([0] * (n_draft - len(positions)))
        for i in range(n):
            positions[i] += 1
