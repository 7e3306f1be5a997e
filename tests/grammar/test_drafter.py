"""The drafter that proposes what the grammar forces."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyspec.drafters.base import Verdict
from pyspec.drafters.grammar import GrammarDrafter
from pyspec.llm.grammar import Grammar, GrammarCompiler
from tests.grammar.conftest import FAMILIES
from tests.grammar.helpers import spell

FORCED = Grammar.lark('start: "{\\"the other\\": then, \\"count\\": " /[0-9]/ "}"')


class Fixed:
    """A state that always forces the same tokens."""

    def __init__(self, tokens: list[int]) -> None:
        self.tokens = tokens
        self.asked: list[int] = []

    def forced_tokens(self, limit: int) -> list[int]:
        self.asked.append(limit)
        return self.tokens[:limit]


@pytest.mark.parametrize("family", FAMILIES)
def test_forced_text_is_tokenised_as_the_model_does(
    compiler: Callable[..., GrammarCompiler], family: str
) -> None:
    """All forced bytes, the last uncertain token too; no BOS and no space that the tokenizer would put in front."""
    state = compiler(family).start(FORCED)
    tokens = state.forced_tokens(1000)
    text = b"".join(map(state.vocabulary.piece, tokens))
    assert text == b'{"the other": then, "count": '
    assert state.plan(tokens)[0] == tokens
    assert len(tokens) < len(text) - 5, "spelt in single bytes"
    assert state.forced_tokens(3) == tokens[:3]
    state.commit(tokens)
    assert state.forced_tokens(5) == []
    state.commit(spell(state, "7"))
    assert state.forced_tokens(5) == spell(state, "}")
    state.commit(spell(state, "}"))
    assert state.finished and state.forced_tokens(5) == []


def test_half_a_character_is_not_proposed(compiler: Callable[..., GrammarCompiler]) -> None:
    state = compiler().start(Grammar.lark('start: "aé" | "aè"'))
    assert b"".join(map(state.vocabulary.piece, state.forced_tokens(9))) == b"a"


def test_a_draft_has_its_confidence() -> None:
    drafter = GrammarDrafter()
    assert drafter.propose([], 1, 8) is None  # no grammar in this generation
    drafter.state = Fixed([])
    assert drafter.propose([], 1, 8) is None
    drafter.state = Fixed([4, 5, 6])
    draft = drafter.propose([], 1, 8)
    assert draft is not None and draft.tokens == [4, 5, 6] and draft.drafter == "grammar"
    assert draft.confidence == pytest.approx([0.95, 0.95, 0.6])
    cut = drafter.propose([], 1, 2)
    assert cut is not None and cut.tokens == [4, 5]
    assert cut.confidence == pytest.approx([0.95, 0.95]), "a draft that was cut has no uncertain last token"
    drafter.close()
    assert drafter.propose([], 1, 8) is None


def test_drafts_respect_their_limits() -> None:
    drafter = GrammarDrafter(m=3)
    drafter.state = state = Fixed(list(range(50)))
    for limit in (1, 2, 3, 40):
        draft = drafter.propose([], 1, limit)
        assert draft is not None and draft.tokens == list(range(min(limit, 3)))
    assert state.asked == [2, 3, 4, 4]
    assert drafter.max_draft == 3 and drafter.is_text and drafter.priority == 0


def test_confidence_follows_what_the_target_does() -> None:
    """Learnt from every emitted token, whoever drafted; the kinds of tokens are learnt apart, and slowly forgotten."""
    drafter = GrammarDrafter()
    drafter.state = Fixed([4, 5, 6])

    def rates() -> tuple[float, float]:
        draft = drafter.propose([], 1, 8)
        assert draft is not None and draft.confidence is not None
        return draft.confidence[0], draft.confidence[-1]

    inner, final = rates()
    drafter.commit(Verdict([], [4, 5, 9], [4, 5, 6], 2), None, True)
    assert rates()[0] > inner and rates()[1] < final
    inner, final = rates()
    drafter.commit(Verdict([], [9, 5, 6], [9, 5, 6], 3), None, False)  # another drafter's round
    assert rates()[0] < inner and rates()[1] == final
    inner, final = rates()
    drafter.commit(Verdict([], [4], [], 0), None, False)  # a round without a draft
    assert rates()[0] > inner and rates()[1] == final
    for _ in range(2000):
        rates()
        drafter.commit(Verdict([], [4, 5, 6, 7], [4, 5, 6], 3), None, True)
    assert min(rates()) > 0.99
    for _ in range(400):
        rates()
        drafter.commit(Verdict([], [4, 5, 7], [4, 5, 6], 2), None, True)
    assert rates()[0] > 0.99 and rates()[1] < 0.2
    before = rates()
    drafter.propose([], 1, 2)
    drafter.begin([])  # a new generation: nothing of the old one is judged
    drafter.commit(Verdict([], [9], [], 0), None, False)
    assert rates() == before
