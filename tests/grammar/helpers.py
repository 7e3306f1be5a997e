"""What the grammar tests share: spelling texts in single bytes, reading masks, a loop that generates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pyspec.core.context import Context
from pyspec.core.model import Model
from pyspec.drafters.base import Verdict
from pyspec.drafters.grammar import GrammarDrafter
from pyspec.errors import GrammarError
from pyspec.llm.grammar.state import GrammarState
from pyspec.llm.grammar.vocabulary import GrammarVocabulary


def byte_tokens(vocabulary: GrammarVocabulary) -> dict[int, int]:
    """A token for every byte value."""
    found: dict[int, int] = {}
    for token in range(vocabulary.n_vocab):
        piece = vocabulary.piece(token)
        if len(piece) == 1 and token not in vocabulary.end_ids:
            found.setdefault(piece[0], token)
    return found


def spell(state: GrammarState, text: str | bytes) -> list[int]:
    """One token for each byte of a text."""
    tokens = byte_tokens(state.vocabulary)
    return [tokens[value] for value in (text.encode() if isinstance(text, str) else text)]


def accepts(state: GrammarState, text: str) -> bool:
    """Does the grammar have this text, spelt byte by byte?"""
    tokens = spell(state, text)
    state = state.copy()
    try:
        state.commit(tokens)
    except GrammarError:
        return False
    return state.accepting


def allowed(row: npt.NDArray[np.int32]) -> set[int]:
    """The tokens of a mask row."""
    bits = np.unpackbits(row.view(np.uint8), bitorder="little")
    return {int(token) for token in np.flatnonzero(bits)}


def fed(start: GrammarState, tokens: Sequence[int]) -> GrammarState:
    """A state that has seen only committed tokens, one by one."""
    state = start.copy()
    for token in tokens:
        state.commit([token])
    return state


@dataclass
class Run:
    """What a generation did."""

    tokens: list[int] = field(default_factory=list)
    ended: bool = False
    passes: int = 0
    drafted: int = 0
    accepted: int = 0


#: draft(emitted, state) -> tokens that might follow what was emitted.
DraftFunction = Callable[[list[int], GrammarState], list[int]]


class Loop:
    """Generates on a tiny model with masks applied in NumPy: arg-max, or Gumbel noise keyed by seed and place."""

    def __init__(self, model: Model, prompt: Sequence[int]) -> None:
        self.context = Context(model, n_ctx=512, n_batch=64, n_outputs=64, n_threads=1)
        self.prompt = list(prompt)
        self.n_vocab = model.info.n_vocab

    def choose(self, row: int, mask: npt.NDArray[np.int32], place: int, seed: int | None) -> int:
        bits = np.unpackbits(mask.view(np.uint8), bitorder="little")[: self.n_vocab].astype(bool)
        logits = np.where(bits, self.context.logits(row), np.float32(-np.inf))
        if seed is not None:
            logits = logits + np.random.default_rng([seed, place]).gumbel(size=self.n_vocab)
        return int(np.argmax(logits))

    def run(
        self,
        start: GrammarState,
        *,
        draft: DraftFunction | None = None,
        drafter: GrammarDrafter | None = None,
        seed: int | None = None,
        max_tokens: int = 400,
        after_round: Callable[[GrammarState, list[int]], None] | None = None,
    ) -> Run:
        """One generation from start, which stays where it is."""
        context, state, out = self.context, start.copy(), Run()
        context.seq_rm(0, -1, -1)
        history = self.prompt[:-1]
        if history:
            context.decode(history, outputs="none")
        last = self.prompt[-1]
        if drafter is not None:
            drafter.state = state
            drafter.begin(history)
        while len(out.tokens) < max_tokens and not out.ended:
            proposal: list[int] = []
            if out.tokens:
                limit = min(max_tokens - len(out.tokens), 32) - 1
                if drafter is not None and limit > 0:
                    made = drafter.propose(history, last, limit)
                    proposal = [] if made is None else made.tokens
                if not proposal and draft is not None:
                    proposal = draft(out.tokens, state)[:limit]
            cut, masks = state.plan(proposal)
            assert proposal[: len(cut)] == cut
            context.decode([last, *cut], outputs="all")
            out.passes += 1
            out.drafted += len(cut)
            emitted: list[int] = []
            for row in range(len(cut) + 1):
                token = self.choose(row, masks[row], len(out.tokens) + len(emitted), seed)
                emitted.append(token)
                out.ended = token in state.vocabulary.end_ids
                if out.ended or row == len(cut) or token != cut[row]:
                    break
            n_accepted = sum(1 for a, b in zip(emitted, cut, strict=False) if a == b)
            out.accepted += n_accepted
            history = [*history, last, *emitted[:-1]]
            context.seq_rm(0, len(history), -1)
            last = emitted[-1]
            state.commit(emitted)
            out.tokens += emitted
            if drafter is not None:
                drafter.commit(Verdict([], emitted, cut, n_accepted), None, True)
            if after_round is not None:
                after_round(state, out.tokens)
        return out

    def close(self) -> None:
        self.context.close()


def text_of(state: GrammarState, tokens: Sequence[int]) -> str:
    """The text of tokens, which must be whole characters."""
    return b"".join(state.vocabulary.piece(token) for token in tokens).decode("utf-8")


class Spy:
    """A matcher that insists on the rules: nothing unasked is consumed, no end token is fed, a finished one is left
    alone. It stands in for llguidance's and hands everything on.
    """

    def __init__(self, matcher: Any, end_ids: frozenset[int], log: list[str]) -> None:
        self.matcher, self.end_ids, self.log = matcher, end_ids, log
        self.checked: list[int] = []

    def deep_copy(self) -> Spy:
        assert not self.matcher.is_stopped()
        other = Spy(self.matcher.deep_copy(), self.end_ids, self.log)
        other.checked = list(self.checked)
        return other

    def is_stopped(self) -> bool:
        return bool(self.matcher.is_stopped())

    def is_error(self) -> bool:
        return bool(self.matcher.is_error())

    def validate_tokens(self, tokens: list[int]) -> int:
        assert not self.matcher.is_stopped()
        assert not self.end_ids.intersection(tokens)
        n = int(self.matcher.validate_tokens(tokens))
        self.checked = tokens[:n]
        return n

    def consume_token(self, token: int) -> bool:
        return self.consume_tokens([token])

    def consume_tokens(self, tokens: list[int]) -> bool:
        assert not self.matcher.is_stopped()
        assert self.checked[: len(tokens)] == tokens, "consumed without being asked about"
        del self.checked[: len(tokens)]
        self.log.append("consume")
        return bool(self.matcher.consume_tokens(tokens))

    def is_accepting(self) -> bool:
        assert not self.matcher.is_stopped()
        return bool(self.matcher.is_accepting())

    def unsafe_compute_mask_ptr(self, pointer: int, size: int) -> None:
        assert not self.matcher.is_stopped(), "a finished matcher was asked for a mask"
        self.log.append("mask")
        self.matcher.unsafe_compute_mask_ptr(pointer, size)

    def compute_ff_bytes(self) -> bytes:
        assert not self.matcher.is_stopped()
        return bytes(self.matcher.compute_ff_bytes())

    def get_error(self) -> str:
        return str(self.matcher.get_error())
