"""suffix: copy what followed the longest match of the current text, as far as the evidence carries.

An online suffix automaton (`csrc/history/suffix_automaton.h`) indexes every token the session has held: prompts,
answers and expected answers. The longest suffix of the current text that occurs elsewhere is continued by the
majority of its occurrences, token by token. Each token comes with a confidence: a fixed estimate from match
length, counts and place in the draft, corrected per source by what the text did with earlier guesses. Guesses
are scored whether they were used or not, so the drafter learns while it rests.

How far a draft goes: the chain sets `controlled` when a controller cuts drafts by cost; then the whole walk is
returned (it ends before its chance of being right all along falls below 0.02). Otherwise it ends before this
chance falls below p_min.

Edits of the history: up to 64 tokens are taken back exactly, so the draft is that of a drafter that never saw
them. After larger edits the old text stays in the index as text to copy from, on purpose: a regenerated answer
or an edited prompt mostly repeats it. Memory per drafter, and never shared; `forget` empties it.

Corpora are bodies of text that do not change: `Suffix(corpora=[read_corpus(path, vocab)])`, see `corpus_file`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pyspec.core.suffix import SuffixIndex, SuffixInfo
from pyspec.drafters.base import Draft, Drafter, Verdict

if TYPE_CHECKING:
    from pyspec.drafters.corpus_file import Corpus

#: A controlled drafter ends its draft before the chance that all of it is right falls below this.
LEAST_CHANCE = 0.02


class Suffix(Drafter):
    """Drafter from the session's own text and from corpora. Owns its index; needs no model.

    m: longest draft. p_min: where a draft ends when no controller cuts it, as the chance of all its tokens
    being right. memory: how much of the session's text the index holds, in units of 1024 tokens (about 90 KB
    each). end_tokens: a draft ends with any of them.
    """

    name = "suffix"
    priority = 5
    is_text = True
    #: Set by the chain: a controller cuts the drafts, so they should be complete.
    controlled: bool = False

    def __init__(
        self,
        m: int = 31,
        p_min: float = 0.5,
        memory: int = 256,
        *,
        end_tokens: Iterable[int] = (),
        corpora: Iterable[Corpus] = (),
    ) -> None:
        self.m = m
        self.p_min = p_min
        self.max_draft = m
        self._index = SuffixIndex(max_draft=m, memory_tokens=1024 * memory, end_tokens=sorted(end_tokens))
        self._n_history = 0  # committed tokens; the index may be one ahead: the token that was sampled last
        for corpus in corpora:
            self.add_corpus(corpus)

    def begin(self, tokens: Sequence[int]) -> None:
        self._index.follow(0, tokens)
        self._n_history = len(tokens)

    def propose(self, history: Sequence[int], last: int, limit: int) -> Draft | None:
        n_history = len(history)
        if n_history != self._n_history:
            self.begin(history)
        found = self._index.draft(n_history, last, limit, LEAST_CHANCE if self.controlled else self.p_min)
        if found is None:
            return None
        return Draft(found[0], self.name, confidence=found[1])

    def commit(self, verdict: Verdict, rows: Any | None, mine: bool) -> None:
        # The last emitted token begins the next round: it belongs to the text already.
        self._index.follow(self._n_history, verdict.kept + verdict.emitted[-1:])
        self._n_history += len(verdict.kept)

    def truncate(self, n_tokens: int) -> None:
        self._index.truncate(n_tokens)
        self._n_history = min(self._n_history, n_tokens)

    def shift(self, p0: int, p1: int, delta: int) -> None:
        end = min(p1, self._n_history)
        if p0 < end:
            self._index.remove(p0, end)
            self._n_history -= end - p0

    def checkpoint(self) -> int:
        return self._n_history

    def restore(self, token: int) -> None:
        self.truncate(token)

    def audit(self, history: Sequence[int]) -> str | None:
        tokens = self._index.tokens()
        n = len(history)
        if self._n_history != n or tokens[:n] != list(history) or len(tokens) > n + 1:
            return (
                f"suffix follows {self._n_history} tokens and indexes {len(tokens)}, "
                f"which are not the {n} committed and at most one more"
            )
        return None

    def close(self) -> None:
        self._index.close()

    def add_document(self, tokens: Sequence[int]) -> None:
        """Text that the answer is expected to resemble; its occurrences count like those of the prompt."""
        self._index.add_document(tokens)

    def add_corpus(self, corpus: Corpus) -> None:
        """A body of text with a calibration of its own."""
        self._index.add_corpus(corpus.tokens, corpus.ends)

    def forget(self) -> None:
        """Drop all text of the session and what was learnt from it; corpora stay. For a new user."""
        self._index.reset()
        self._n_history = 0

    @property
    def info(self) -> SuffixInfo:
        """Size of the index."""
        return self._index.info
