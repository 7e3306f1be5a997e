"""The acceptance rule of a generation: from the rows of a verification to the tokens that are emitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspec.core.context import Context
    from pyspec.core.model import Model
    from pyspec.core.sampler import Sampler
    from pyspec.drafters.base import Draft


class Acceptance(Protocol):
    """accept(draft, masks, n_max) -> (emitted tokens, how many of them are the draft's).

    The output rows of the target's last decode belong to the token before the draft and to each of its tokens.
    masks: which tokens each row allows, {rows, words} bits, or None. At least one token is emitted, at most n_max;
    the generation's sampler has advanced by them.
    """

    def accept(self, draft: Draft | None, masks: Any, n_max: int) -> tuple[list[int], int]: ...


class Match:
    """Sample-and-match: the target's own choice for each row, as long as it equals the draft. The text is that of
    plain decoding with the same sampler.
    """

    def __init__(self, target: Context, sampler: Sampler, model: Model) -> None:
        self.target = target
        self.sampler = sampler
        self.model = model

    def accept(self, draft: Draft | None, masks: Any, n_max: int) -> tuple[list[int], int]:
        tokens = [] if draft is None else draft.tokens
        if masks is None:
            return self.sampler.accept_match(self.target, tokens, model=self.model, n_max=n_max)
        return self.sampler.accept_match(self.target, tokens, model=self.model, n_max=n_max, masks=masks)
