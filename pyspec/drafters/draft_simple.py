"""draft-simple: a smaller language model with the same vocabulary drafts token by token.

The draft context mirrors the committed history lazily: nothing is computed until the drafter is asked, then
exactly the tokens it has not seen. Rows computed while drafting are kept when the target accepted their
tokens, so that no token is evaluated twice; the rest is trimmed when the round is committed. After a round in
which m of k drafts were accepted the draft context therefore holds the committed history up to min(m, k-1)
drafts: the k-th was proposed but never fed.

At temperature 0 the best candidate is drafted. Above, the drafter makes the target's own draw: the same noise, keyed by
the place in the answer, on its own probabilities (drafting by common random numbers, arXiv 2408.07978). That agrees
with the target more often than the best candidate does, and the text stays the target's. For rejection sampling it
draws with noise of its own instead.

Drafting stops at n_draft tokens, at the round's limit, after an end token, or when the best candidate's
probability (among the ten best) is below p_min; a draft shorter than n_min is dropped. Under a controller p_min
and n_min do not count: whether another token is worth its time is asked after each one. Ids that the target
does not have are never proposed; ids that only the target has (padding) are fed as id 0, which keeps the
positions right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyspec.drafters.base import Draft, Drafter, Needs, Verdict, common_prefix
from pyspec.errors import InternalError, UnsupportedError

if TYPE_CHECKING:
    from pyspec.core.context import Context
    from pyspec.core.sampler import Sampler

#: The draft's temperature as a part of the target's. Sharpening makes the same draw agree more often: the small model's
#: improbable candidates are mostly its own errors.
SHARPENED = 0.8
#: Candidates over which the confidence compared with p_min is normalised.
N_BEST = 10


class DraftSimple(Drafter):
    """Drafter with its own model context, which it owns and closes. The model belongs to the caller.

    context: a fresh context on the draft model. n_allowed: ids below it exist in the target. is_end: ends a
    generation. choose(context, row, n_allowed, n_best) -> (token, probability).
    """

    name = "draft-simple"
    priority = 60
    needs = Needs(draft_model=True)

    def __init__(
        self,
        context: Context,
        *,
        n_allowed: int,
        is_end: Callable[[int], bool],
        choose: Callable[..., tuple[int, float]],
        n_draft: int = 3,
        p_min: float = 0.6,
        n_min: int = 0,
        coupled: bool = True,
        cost_hint: float | None = None,
    ) -> None:
        self.cost_hint = cost_hint
        rollback = context.probe_rollback()
        if rollback.name not in ("PART", "TAIL"):
            raise UnsupportedError(
                "draft-simple needs a draft model whose memory can be trimmed; "
                f"this one's rollback is {rollback.name}"
            )
        self.configure(n_draft=n_draft, p_min=p_min, n_min=n_min, coupled=coupled)
        self.context = context
        self._n_allowed = n_allowed
        self._is_end = is_end
        self._choose = choose
        self._sampler: Sampler | None = None
        self._sampler_of: Sampler | None = None
        self._n_batch = int(getattr(context, "n_batch", 0)) or 1
        self._seen: list[int] = []  # the tokens in the draft context, in order
        self._agreed = 0  # this many of them are known to be committed history

    def configure(self, *, n_draft: int, p_min: float, n_min: int, coupled: bool) -> None:
        """Options from the next generation on. What was read stays."""
        self.n_draft = self.max_draft = n_draft
        self.p_min = p_min
        self.n_min = n_min
        self.coupled = coupled

    def begin(self, tokens: Sequence[int]) -> None:
        self._agreed = common_prefix(self._seen, tokens if isinstance(tokens, list) else list(tokens))
        self._trim(self._agreed)

    def propose(self, history: Sequence[int], last: int, limit: int) -> Draft | None:
        length = len(history)
        limit = min(limit, self.n_draft, self.context.n_ctx - length - 1)
        if limit < 1:
            return None
        self._catch_up(history, last)
        context, choose = self.context, self._choose
        proceed, p_min = self.proceed, 0.0 if self.controlled else self.p_min
        sampler = self._drafting_sampler()
        laws: list[list[tuple[int, float]]] | None = [] if sampler is not None and self.needs_laws else None
        drafted: list[int] = []
        confidence: list[float] = []
        while True:
            token, probability = choose(context, 0, self._n_allowed, N_BEST)
            if sampler is not None and laws is None:
                token, probability = sampler.draft(context, 0, self._n_allowed)
            if probability < p_min:
                break
            if sampler is not None:
                if laws is not None:
                    token, law = sampler.draft_sample(context, 0, self._n_allowed)
                    laws.append(law)
                sampler.advance(token)
            drafted.append(token)
            confidence.append(probability)
            if len(drafted) >= limit or self._is_end(token):
                break
            if proceed is not None and not proceed(len(drafted), probability):
                break
            self._feed([token])
        if laws is None and not self.controlled and len(drafted) < self.n_min:
            return None
        return Draft(drafted, self.name, confidence=None if laws else confidence, distributions=laws)

    def _drafting_sampler(self) -> Sampler | None:
        """A sampler that makes the target's draws on the draft's rows; None at temperature 0, where the best candidate
        is all there is to say.
        """
        target = self.target_sampler
        if target is None or target.params.temperature <= 0 or not (self.coupled or self.needs_laws):
            return None
        if self._sampler is None or self._sampler_of is not target:
            if self._sampler is not None:
                self._sampler.close()
            scale = 1.0 if self.needs_laws else SHARPENED
            self._sampler, self._sampler_of = target.for_drafting(scale), target
        self._sampler.follow(target)
        return self._sampler

    @property
    def n_read(self) -> int:
        """Tokens of the history in the draft context."""
        return self._agreed

    def commit(self, verdict: Verdict, rows: Any | None, mine: bool) -> None:
        agreed, seen = self._agreed, self._seen
        if agreed == len(seen):
            return  # nothing was fed since the last commit, or it lags behind: catch up when asked
        n = 0
        for token in verdict.kept:
            if agreed + n >= len(seen) or seen[agreed + n] != token:
                break
            n += 1
        self._agreed = agreed + n
        self._trim(self._agreed)

    def truncate(self, n_tokens: int) -> None:
        self._agreed = min(self._agreed, n_tokens)
        self._trim(n_tokens)

    def shift(self, p0: int, p1: int, delta: int) -> None:
        """The draft context rolls as the target did; one that cannot is filled again when asked."""
        context, seen, agreed = self.context, self._seen, self._agreed
        behind = seen[p1:]
        if not behind or not context.can_seq_add(0, p1, -1, 0):
            self.truncate(p0)
            return
        # An interrupt leaves a list that is shorter than the context, which the next trim repairs.
        del seen[p0:]
        self._agreed = min(agreed, p0)
        if not (context.seq_rm(0, p0, p1) and context.seq_add(0, p1, -1, delta)):
            raise InternalError("the draft context refused to roll, which it had allowed")
        seen.extend(behind)
        self._agreed = max(self._agreed, agreed + delta)

    def checkpoint(self) -> int:
        return self._agreed

    def restore(self, token: int) -> None:
        self.truncate(token)

    def audit(self, history: Sequence[int]) -> str | None:
        cells = self.context.seq_pos_max(0) + 1
        if cells != len(self._seen):
            return f"draft-simple believes in {len(self._seen)} cells, its context has {cells}"
        if self._seen != list(history[: len(self._seen)]):
            return (
                f"draft-simple holds {len(self._seen)} tokens that do not begin the history of {len(history)}"
            )
        return None

    def close(self) -> None:
        if self._sampler is not None:
            self._sampler.close()
            self._sampler = self._sampler_of = None
        self.context.close()

    def _catch_up(self, history: Sequence[int], last: int) -> None:
        """Make the draft context hold history + [last], with the logits of last."""
        agreed = common_prefix(self._seen, history, min(self._agreed, len(history)))
        self._trim(agreed)
        self._agreed = agreed
        missing = [*history[agreed:], last]
        for at in range(0, len(missing), self._n_batch):
            self._feed(missing[at : at + self._n_batch])
        self._agreed = len(history)

    def _feed(self, tokens: list[int]) -> None:
        n_own = self.context.n_vocab
        known = tokens if max(tokens) < n_own else [token if token < n_own else 0 for token in tokens]
        self.context.decode(known, cancel=self.cancel)
        self._seen.extend(tokens)

    def _trim(self, n_tokens: int) -> None:
        """Shorten the context to its first n_tokens tokens; also repairs an interrupted call (cells and list
        disagree).
        """
        cells = self.context.seq_pos_max(0) + 1
        keep = min(n_tokens, len(self._seen), cells)
        if cells > keep and not self.context.seq_rm(0, keep, -1):
            raise InternalError(
                f"the draft context refused to drop positions from {keep} on, which its probe allowed"
            )
        del self._seen[keep:]
        self._agreed = min(self._agreed, keep)
