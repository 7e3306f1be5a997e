"""Where one generation stands in its grammar.

The library's matcher has habits that decide the shape of this: an illegal token spoils it for good, an end token is not
always counted by its rollback, and a finished one must not be asked anything. So it is only ever fed tokens that it has
been asked about, never an end token, and never a guess: guesses go into a copy that is thrown away after the round
(a copy costs microseconds). Nothing has to be rolled back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pyspec.errors import GrammarError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyspec.llm.grammar.vocabulary import GrammarVocabulary


class GrammarState:
    """The grammar after the tokens that the target has emitted. One generation, one thread at a time.

    In each round: `plan` before the target decodes, `commit` with what it emitted.
    """

    __slots__ = ("_ended", "_finished", "_masks", "_matcher", "vocabulary")

    def __init__(self, matcher: Any, vocabulary: GrammarVocabulary) -> None:
        self.vocabulary = vocabulary
        self._matcher = matcher  # an llguidance.LLMatcher; owned
        self._masks: NDArray[np.int32] = np.zeros((1, vocabulary.n_words), dtype=np.int32)
        self._ended = False
        self._finished = bool(matcher.is_stopped())

    @property
    def finished(self) -> bool:
        """Nothing can follow but an end token, or one has been emitted."""
        return self._finished

    @property
    def accepting(self) -> bool:
        """May the text end here?"""
        return self._finished or bool(self._matcher.is_accepting())

    def plan(self, draft: Sequence[int]) -> tuple[list[int], NDArray[np.int32]]:
        """The part of a draft that the grammar allows, and a mask for each row of its verification.

        Returns (cut, masks). cut is a prefix of the draft; it ends at the latest with its first end token. masks, int32
        {len(cut)+1, n_words}, C-contiguous: bit t%32 of word t//32 of row i says whether token t may follow the committed
        tokens and cut[:i]. End tokens are allowed exactly where the grammar's text may end, ids that the tokenizer does not
        have nowhere. The masks are valid until the next call. The committed state does not change.

        Raises GrammarError when nothing can follow the committed tokens: the vocabulary cannot spell what the grammar
        wants, or the grammar exceeds the library's limits there. A draft that leads there is cut before.
        """
        end_ids = self.vocabulary.end_ids
        if self._finished:
            cut = [draft[0]] if draft and draft[0] in end_ids and not self._ended else []
            masks = self._rows(len(cut) + 1)
            masks[:] = self.vocabulary.end_mask
            return cut, masks
        n_text = next((i for i, token in enumerate(draft) if token in end_ids), len(draft))
        cut = list(draft[:n_text])
        if cut:
            del cut[self._matcher.validate_tokens(cut) :]
        masks = self._rows(len(cut) + 2)
        if not self._fill(self._matcher, masks[0]):
            self._fail("no token of this vocabulary can continue the text")
        n = self._follow(cut, masks)
        del cut[n:]
        if n == n_text < len(draft) and self._allows(masks[n], draft[n]):
            cut.append(draft[n])
            masks[n + 1] = self.vocabulary.end_mask  # never looked at: nothing is chosen behind an end
        return cut, masks[: len(cut) + 1]

    def commit(self, tokens: Sequence[int]) -> None:
        """The target emitted these tokens. What follows an end token does not count.

        Raises GrammarError when the grammar does not allow one, which masked choices never do; nothing has changed then.
        """
        end_ids = self.vocabulary.end_ids
        n_text = next((i for i, token in enumerate(tokens) if token in end_ids), len(tokens))
        text = list(tokens[:n_text])
        if self._ended and tokens:
            raise GrammarError(f"token {tokens[0]} was emitted after the end of the text")
        if text:
            n = 0 if self._finished else self._matcher.validate_tokens(text)
            if n < n_text:
                piece = self.vocabulary.piece(text[n])
                raise GrammarError(
                    f"token {text[n]} ({piece!r}) was emitted where the grammar does not allow it"
                )
            if not self._matcher.consume_tokens(text):
                self._fail("the grammar cannot follow the text")
            self._finished = bool(self._matcher.is_stopped())
        if n_text < len(tokens):
            if not self.accepting:
                raise GrammarError(
                    f"end token {tokens[n_text]} was emitted where the grammar's text cannot end"
                )
            self._ended = self._finished = True

    def forced_tokens(self, limit: int) -> list[int]:
        """The model's tokens for the bytes that the grammar forces next, at most limit of them.

        Bytes are forced, not tokens: the target may split them otherwise, or join the last ones to what follows. So these
        are guesses, though good ones. End tokens are not among them.
        """
        if self._finished:
            return []
        data = self._matcher.deep_copy().compute_ff_bytes()
        return self.vocabulary.encode(data)[:limit] if data else []

    def copy(self) -> GrammarState:
        """An independent state at the same place."""
        other = GrammarState(self._matcher.deep_copy(), self.vocabulary)
        other._ended, other._finished = self._ended, self._finished
        return other

    def fingerprint(self) -> tuple[bool, bool, bytes, bytes]:
        """(finished, may end here, mask, forced bytes): equal for states that have seen the same text. For tests."""
        if self._finished:
            return True, not self._ended, self.vocabulary.end_mask.tobytes(), b""
        other = self.copy()
        mask = np.zeros(self.vocabulary.n_words, dtype=np.int32)
        self._fill(other._matcher, mask)
        return False, other.accepting, mask.tobytes(), self._matcher.deep_copy().compute_ff_bytes()

    def _follow(self, tokens: list[int], masks: NDArray[np.int32]) -> int:
        """Fill the mask rows behind tokens, which are legal. Returns how many of them are worth verifying."""
        if not tokens:
            return 0
        probe = self._matcher.deep_copy()
        for i, token in enumerate(tokens):
            # A mask may be narrower than what is valid: where bytes are forced it has the model's own tokens only.
            if not self._allows(masks[i], token) or not probe.consume_token(token):
                return i
            if probe.is_stopped() and not probe.is_error():
                masks[i + 1] = self.vocabulary.end_mask
                return i + 1
            if not self._fill(probe, masks[i + 1]):
                return i
        return len(tokens)

    def _fill(self, matcher: Any, row: NDArray[np.int32]) -> bool:
        """What may follow the matcher's text. False: nothing, or the library gave up."""
        matcher.unsafe_compute_mask_ptr(row.ctypes.data, row.nbytes)
        if matcher.is_error():
            return False
        # A Lark grammar may name an end token in its middle. That has no meaning here: an end is where the text may end.
        accepting = matcher.is_accepting()
        for word, bit in self.vocabulary.end_bits:
            row[word] = row[word] | bit if accepting else row[word] & ~bit
        return bool(row.any())

    def _fail(self, what: str) -> None:
        reason = self._matcher.get_error() if self._matcher.is_error() else ""
        raise GrammarError(f"{what}: {reason}" if reason else what)

    def _rows(self, n: int) -> NDArray[np.int32]:
        if len(self._masks) < n:
            self._masks = np.zeros((max(n, 2 * len(self._masks)), self.vocabulary.n_words), dtype=np.int32)
        return self._masks[:n]

    @staticmethod
    def _allows(row: NDArray[np.int32], token: int) -> bool:
        return bool(row[token // 32] >> (token % 32) & 1)
