"""The end of the context: what one generation does when the memory is full.

on_full="stop" ends the answer there (finish_reason "length"), "error" does too and raises ContextFullError with the
answer attached, "roll" forgets a part of the middle and goes on: the first tokens stay, half of the rest (or
n_discard tokens) leaves, what follows moves up. A roll happens exactly when every cell is in use and another token
has to be decoded; drafts are cut to the free cells. So it happens at the same token with and without drafters.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspec.errors import ContextFullError, OptionError, UnsupportedError

if TYPE_CHECKING:
    from pyspec.llm.request import Request
    from pyspec.llm.session import Session
    from pyspec.speculation.chain import Chain


def most_kept(n_ctx: int) -> int:
    """Most tokens that rolls may keep at the beginning: a quarter of the context has to be there for the rest, or
    every few tokens would be a roll.
    """
    return n_ctx - max(1, n_ctx // 4)


def check_rolling(request: Request, session: Session) -> None:
    """Refuse what cannot work before anything runs: UnsupportedError, OptionError."""
    if request.on_full != "roll":
        return
    if not session.can_roll:
        raise UnsupportedError(
            "on_full='roll' cannot work with this target: its memory cannot remove tokens in the middle and move "
            "the later ones. Use on_full='stop' or 'error'"
        )
    most = most_kept(session.target.n_ctx)
    if request.n_keep is not None and request.n_keep > most:
        raise OptionError(
            f"n_keep is {request.n_keep}, more than three quarters of the context of {session.target.n_ctx} tokens; "
            f"at most {most} can be kept"
        )


class ContextEnd:
    """The limits of one generation and the rolls that move them.

    prompt: token ids, all in memory or about to be. limit: most tokens the answer may have. removed, rolls: tokens
    that rolls have taken out of the memory so far, and their number.
    """

    def __init__(self, session: Session, chain: Chain, request: Request, prompt: list[int]) -> None:
        self.removed = 0
        self.rolls = 0
        self._session = session
        self._chain = chain
        self._on_full = request.on_full
        self._n_ctx = session.target.n_ctx
        self._n_prompt = len(prompt)
        wanted = sys.maxsize if request.max_tokens is None else request.max_tokens
        room = self._n_ctx - len(prompt)
        self.limit = wanted if request.on_full == "roll" else min(wanted, room)
        self._is_cut = self.limit < wanted
        n_keep = len(prompt) if request.n_keep == -1 else request.n_keep or 0
        begins = int(session.model.vocab.bos >= 0 and prompt[0] == session.model.vocab.bos)
        self._n_keep = min(max(n_keep, begins), len(prompt), most_kept(self._n_ctx))
        rest = self._n_ctx - self._n_keep
        self._n_discard = min(rest, request.n_discard or max(1, rest // 2))

    def room(self, n_emitted: int) -> int:
        """Most tokens the next round may emit after n_emitted; a full memory is rolled first."""
        left = self.limit - n_emitted
        if self._on_full != "roll":
            return left
        session = self._session
        if len(session.history) >= self._n_ctx:
            session.roll(self._n_keep, self._n_discard, self._chain)
            self.removed += self._n_discard
            self.rolls += 1
        return min(left, self._n_ctx - len(session.history))

    def in_memory(self, n_tokens: int) -> int:
        """How many of the first n_tokens tokens of prompt and answer have not been removed."""
        return max(min(n_tokens, self._n_keep), n_tokens - self.removed)

    def error(self) -> ContextFullError | None:
        """What to raise when the limit has been reached."""
        if self._on_full != "error" or not self._is_cut:
            return None
        return ContextFullError(
            f"the context of n_ctx={self._n_ctx} tokens is full: the prompt has {self._n_prompt}, the answer "
            f"{max(0, self.limit)} so far (they are in this error's `result`). Open the model with a larger n_ctx, "
            "shorten the prompt, or use on_full='roll'"
        )
