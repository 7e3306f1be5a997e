"""The session: the committed tokens and the memory that holds them, kept in agreement between and within
calls.

Invariant: `history` is the list of tokens whose cells the target holds, at positions 0, 1, 2, ... The order
of every change is chosen so that, wherever an interrupt strikes, the list and the cells agree as far as both
go; `repair` then shortens the longer one.

After `roll` the cells behind the gap remember tokens that the history no longer has. They serve the generation
that rolled; another prompt never reuses them, because its answer would not be that of a fresh start.
"""

from __future__ import annotations

import logging
import struct
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspec.drafters.base import common_prefix
from pyspec.errors import ContextFullError, FileFormatError, InternalError
from pyspec.speculation.rollback import try_keep

if TYPE_CHECKING:
    from pyspec.core.context import CancelToken, Context
    from pyspec.core.model import Model
    from pyspec.speculation.chain import Chain

log = logging.getLogger("pyspec")

_STATE_HEAD = struct.Struct("<8sII")  # magic, tokens, how many of them may be reused
_STATE_MAGIC = b"PYSPECS2"


class Session:
    """One conversation's memory. Owns the target context; the model is the caller's. One thread at a time.

    make_context() makes an empty target context. n_batch: most tokens of one decode. audit: check all
    positions after each round (tests).
    """

    def __init__(
        self, model: Model, make_context: Callable[[], Context], *, n_batch: int, audit: bool = False
    ) -> None:
        self.model = model
        self.history: list[int] = []
        self.audit = audit
        self._n_batch = n_batch
        self._make_context = make_context
        self._n_reusable = sys.maxsize  # cells from here on have seen tokens that a roll removed
        self.target = make_context()
        try:
            #: Name of the probe's result: what this memory can undo.
            self.rollback: str = self.target.probe_rollback().name
        except BaseException:
            self.target.close()
            raise

    def prefill(self, prompt: list[int], chain: Chain, cancel: CancelToken) -> int:
        """Make the memory hold exactly the prompt, with the logits of its last token. Returns how many tokens
        were reused.

        Tokens that the memory already has in common with the prompt are not evaluated again, except the last
        one.
        """
        if len(prompt) > self.target.n_ctx:
            raise ContextFullError(
                f"the prompt has {len(prompt)} tokens, the context holds n_ctx={self.target.n_ctx}; shorten "
                "the prompt (drop the oldest turns of a conversation) or open the model with a larger n_ctx"
            )
        self.repair()
        reused = self._reuse(prompt, chain)
        self._n_reusable = sys.maxsize
        for at in range(reused, len(prompt), self._n_batch):
            chunk = prompt[at : at + self._n_batch]
            is_last = at + len(chunk) == len(prompt)
            self.target.decode(chunk, outputs=None if is_last else "none", cancel=cancel)
            self.history.extend(chunk)
            chain.commit_prompt(chunk, self.target)
        chain.begin(self.history, cancel)
        return reused

    def truncate(self, n_tokens: int, chain: Chain) -> None:
        """Forget what follows the first n_tokens tokens. A memory that cannot keeps them, and the history
        says so.
        """
        if n_tokens < len(self.history) and try_keep(self.target, n_tokens):
            del self.history[n_tokens:]
            chain.truncate(n_tokens)

    @property
    def can_roll(self) -> bool:
        """Can the memory lose tokens in its middle and move the later ones?"""
        return self.rollback == "PART" and bool(self.target.can_seq_add(0, 0, -1, 0))

    def roll(self, n_keep: int, n_discard: int, chain: Chain) -> None:
        """Forget the n_discard tokens behind the first n_keep; what follows moves to their positions, in the memory,
        in the history and with every drafter. Needs can_roll.
        """
        history, p1 = self.history, n_keep + n_discard
        behind = history[p1:]
        self._n_reusable = min(self._n_reusable, n_keep)
        del history[n_keep:]  # whatever happens from here on, the memory is the longer one
        if not (self.target.seq_rm(0, n_keep, p1) and self.target.seq_add(0, p1, -1, -n_discard)):
            raise InternalError("the target's memory refused to roll, which it had allowed")
        history.extend(behind)
        chain.shift(n_keep, p1, -n_discard)

    def repair(self) -> None:
        """After a call that ended anywhere: shorten whichever of history and memory is longer."""
        cells = self.target.seq_pos_max(0) + 1
        if cells > len(self.history) and not try_keep(self.target, len(self.history)):
            self.clear()
        elif cells < len(self.history):
            del self.history[cells:]

    def clear(self) -> None:
        """Forget everything."""
        self.history.clear()
        self._n_reusable = sys.maxsize
        if not self.target.seq_rm(-1, -1, -1):
            self.target.close()
            self.target = self._make_context()

    def save(self) -> bytes:
        """The committed tokens and the memory, as bytes for `load`. Drafters are not part of it: they catch
        up.
        """
        self.repair()
        tokens = self.history
        head = _STATE_HEAD.pack(_STATE_MAGIC, len(tokens), min(len(tokens), self._n_reusable))
        memory: bytes = self.target.state_save()
        return head + struct.pack(f"<{len(tokens)}i", *tokens) + memory

    def load(self, state: bytes) -> None:
        """Continue from what `save` gave, from a session of the same model file and cache types."""
        n_head = _STATE_HEAD.size
        magic, n, n_reusable = _STATE_HEAD.unpack(state[:n_head]) if len(state) >= n_head else (b"", 0, 0)
        body = n_head + 4 * n
        if magic != _STATE_MAGIC or len(state) < body or n_reusable > n:
            raise FileFormatError("this is not a saved session")
        tokens = list(struct.unpack(f"<{n}i", state[n_head:body]))
        self.target.state_restore(state[body:])
        if self.target.seq_pos_max(0) + 1 != n:
            self.clear()
            raise FileFormatError("a saved session whose tokens and memory disagree")
        self.history[:] = tokens
        self._n_reusable = n_reusable if n_reusable < n else sys.maxsize

    def close(self) -> None:
        self.target.close()

    def _reuse(self, prompt: list[int], chain: Chain) -> int:
        history = self.history
        n = min(common_prefix(history, prompt), len(prompt) - 1, self._n_reusable)
        if n == len(history):
            return n
        if try_keep(self.target, n):
            del history[n:]
            if self.target.seq_pos_max(0) + 1 != n:
                raise InternalError(
                    f"the memory ends at {self.target.seq_pos_max(0)} after keeping {n} tokens"
                )
        else:
            log.info(
                "this memory cannot be trimmed: the whole prompt of %d tokens is processed again", len(prompt)
            )
            self.clear()
            n = 0
        chain.truncate(n)
        return n
