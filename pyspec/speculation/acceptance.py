"""The acceptance rule of a generation: from the rows of a verification to the tokens that are emitted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pyspec.core.accept import accept_processed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pyspec.core.accept import LogitsProcessor
    from pyspec.core.context import Context
    from pyspec.core.model import Model
    from pyspec.core.sampler import Sampler
    from pyspec.drafters.base import Draft


class Acceptance(Protocol):
    """accept(draft, masks, n_max) -> (emitted tokens, how many of them are the draft's).

    The output rows of the target's last decode belong to the token before the draft and to each of its tokens.
    masks: which tokens each row allows, {rows, words} bits, or None. At least one token is emitted, at most n_max;
    the generation's sampler has advanced by them. name: of the rule, for statistics. rows: those that the
    emitted tokens were chosen from, when processors changed them.
    """

    name: str
    rows: list[NDArray[np.float32]]

    def accept(self, draft: Draft | None, masks: Any, n_max: int) -> tuple[list[int], int]: ...


class Match:
    """Sample-and-match: the target's own choice for each row, as long as it equals the draft. The text is that of
    plain decoding with the same sampler.

    end_ids: tokens that end the answer besides those of the model. processors: change each row before a token is
    chosen from it; prompt: what they see before the emitted tokens.
    """

    name = "match"

    def __init__(
        self,
        target: Context,
        sampler: Sampler,
        model: Model,
        *,
        end_ids: Collection[int] = (),
        processors: Sequence[LogitsProcessor] = (),
        prompt: Sequence[int] = (),
    ) -> None:
        self.target = target
        self.sampler = sampler
        self.options: dict[str, Any] = {"model": model}
        if end_ids:
            self.options["end_ids"] = end_ids
        self.processors = processors
        self.text = list(prompt) if processors else []
        self.rows: list[NDArray[np.float32]] = []

    def accept(self, draft: Draft | None, masks: Any, n_max: int) -> tuple[list[int], int]:
        tokens = [] if draft is None else draft.tokens
        if self.processors:
            return self.processed(tokens, masks, n_max, None)
        if masks is None:
            return self.sampler.accept_match(self.target, tokens, n_max=n_max, **self.options)
        return self.sampler.accept_match(self.target, tokens, n_max=n_max, masks=masks, **self.options)

    def processed(self, tokens: list[int], masks: Any, n_max: int, laws: Any) -> tuple[list[int], int]:
        """The slow way, for rows that Python changes."""
        self.rows = []
        emitted, n_accepted = accept_processed(
            self.sampler,
            self.target,
            tokens,
            self.processors,
            history=self.text,
            n_max=n_max,
            masks=masks,
            distributions=laws,
            seen=self.rows,
            **self.options,
        )
        self.text += emitted
        return emitted, n_accepted


class Rejection(Match):
    """Rejection sampling: a token drawn from the drafter's law q is accepted with min(1, p/q), and a rejected one
    replaced by a draw from what is left of p. Equal to plain decoding in distribution only. Drafts without a law (of
    text drafters) are judged by sample-and-match, which is the same for them.
    """

    name = "rejection"

    def accept(self, draft: Draft | None, masks: Any, n_max: int) -> tuple[list[int], int]:
        laws = None if draft is None else draft.distributions
        if draft is None or laws is None:
            return super().accept(draft, masks, n_max)
        if self.processors:
            return self.processed(draft.tokens, masks, n_max, laws)
        emitted, n_accepted, _ = self.sampler.accept_rejection(
            self.target, draft.tokens, laws, n_max=n_max, masks=masks, **self.options
        )
        return emitted, n_accepted


class Synthetic(Match):
    """For benchmarks of everything around the models: drafts are accepted at given rates, whatever the target says.
    The text means nothing. rates[i]: share of drafts whose first i + 1 tokens are accepted.
    """

    name = "synthetic"

    def __init__(self, *arguments: Any, rates: Sequence[float], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.rates = list(rates)

    def accept(self, draft: Draft | None, masks: Any, n_max: int) -> tuple[list[int], int]:
        tokens = [] if draft is None else draft.tokens
        return self.sampler.accept_synthetic(
            self.target, tokens, self.rates, n_max=n_max, masks=masks, **self.options
        )
