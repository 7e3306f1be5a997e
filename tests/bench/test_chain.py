"""chain: who answers when, and what is made of the answers."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from time import perf_counter, sleep
from typing import Any

import pytest

from tools.bench import chain
from tools.bench.chain import Arrangement, count, parts, turns
from tools.bench.contest import Settings
from tools.bench.process import BenchError
from tools.bench.pyspec_runner import PyspecContestant
from tools.bench.report import as_text
from tools.bench.result import Result


def answer(tok_s: float, tokens: int = 11, drafted: int = 0) -> dict[str, Any]:
    """One that took so long that the rate is this."""
    return {
        "tokens": list(range(tokens)),
        "seconds": (tokens - 1) / tok_s,
        "drafted": drafted,
        "accepted": drafted // 2,
        "rounds": 4,
    }


def of(*rates: float, **more: int) -> list[list[dict[str, Any]]]:
    """Passes with one prompt each."""
    return [[answer(value, **more)] for value in rates]


def counted(passes: chain.Passes) -> Result:
    result = Result("chain", "m.gguf")
    count(result, "code", [0], passes)
    return result


def test_share_is_the_median_of_the_passes_shares() -> None:
    passes = {
        "together": of(12.0, 18.0, 9.0, drafted=6),
        "plain": of(10.0, 10.0, 10.0),
        "suffix": of(10.0, 20.0, 10.0, drafted=4),
        "draft-simple": of(9.0, 30.0, 9.0, drafted=8),
    }
    result = counted(passes)
    found = result.pyspec["code"]
    assert found["best"] == "suffix"  # by the median, although the other one has the fastest pass
    assert found["share"] == pytest.approx(0.9)  # of 1.2, 0.9, 0.9; the ratio of the medians is 1.2
    assert found["gain"] == pytest.approx(1.2) and found["plain_tok_s"] == pytest.approx(10.0)
    assert found["tok_s"] == pytest.approx(12.0)
    assert found["alone"]["draft-simple"] == {
        "tok_s": pytest.approx(9.0),
        "drafted": 8,
        "accepted": 4,
        "rounds": 4,
    }
    assert (found["drafted"], found["accepted"], found["emitted"], found["same_text"]) == (6, 3, 11, True)
    table = as_text(result)
    assert "best alone" in table and "1.200" in table and "same" in table


def test_another_text_of_any_arrangement_is_seen() -> None:
    passes = {name: of(10.0, 10.0) for name in ("together", "plain", "suffix", "draft-simple")}
    passes["suffix"][1][0]["tokens"][5] = 99
    result = counted(passes)
    assert result.pyspec["code"]["same_text"] is False
    assert "OTHER" in as_text(result)


def test_an_answer_of_one_token_has_no_rate() -> None:
    passes = {name: of(10.0) for name in ("together", "plain", "suffix", "draft-simple")}
    passes["draft-simple"] = of(10.0, tokens=1)
    result = counted(passes)
    assert result.pyspec["code"]["share"] is None and "no rate" in result.notes[0]
    assert "-" in as_text(result).splitlines()[-3]


@pytest.mark.parametrize(("n", "n_prompts"), [(4, 10), (4, 4), (5, 10), (3, 6)])
def test_everybody_begins_about_as_often(n: int, n_prompts: int) -> None:
    """Also with one prompt over the passes; and nobody comes behind the same one in more than half of the cases."""
    everybody: Any = list(range(n))
    orders = [[turns(everybody, turn + place) for turn in range(2 * n)] for place in range(n_prompts)]
    for of_one_prompt in orders:
        assert Counter(order[0] for order in of_one_prompt) == dict.fromkeys(everybody, 2)
        assert all(sorted(order) == everybody for order in of_one_prompt)
    for one in everybody:
        behind = Counter(b for found in orders for order in found for a, b in pairwise(order) if a == one)
        assert 2 * max(behind.values()) <= behind.total()


def test_answers_come_in_turns() -> None:
    """Everybody begins, then goes on until its end."""
    log: list[tuple[str, str]] = []

    class Talker:
        def __init__(self, name: str, n_pieces: int) -> None:
            self.name, self.left = name, n_pieces

        def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
            log.append((do, self.name))
            assert arguments == (
                {"ids": [1], "max_tokens": 9} if do == "begin_answer" else {"n": chain.PIECE}
            )
            self.left -= do == "go_on"
            return {} if self.left else {"tokens": [self.name]}

    talkers: Any = [Talker("a", 2), Talker("b", 0), Talker("c", 3), Talker("d", 1)]
    order = [Arrangement(one.name, one, None, (), needs_draft=False) for one in talkers]
    found = chain.answers(order, [1], 9)
    assert found == {name: {"tokens": [name]} for name in "abcd"}
    assert [name for do, name in log if do == "begin_answer"] == ["a", "b", "c", "d"]
    assert [name for do, name in log if do == "go_on"] == ["a", "c", "d", "a", "c", "c"]


def test_an_answer_in_pieces_is_the_answer(tiny: Any) -> None:
    """The same text and counts; the time is that of the pieces alone."""
    one, other = PyspecContestant(), PyspecContestant()
    for contestant in (one, other):
        contestant.open_llm(
            str(tiny.path("llama")), threads=1, n_ctx=256, drafters="suffix", controller="fixed"
        )
    prompt = [5, 6, 7, 8] * 4
    whole = one.answer(prompt, 60)
    found, pieces = other.begin_answer(prompt, 60), []
    while not found:
        sleep(0.05)
        start = perf_counter()
        found = other.go_on(16)
        pieces.append(perf_counter() - start)
    assert len(pieces) >= 2
    assert sum(pieces[:-1]) <= found["seconds"] <= sum(pieces) + 0.01
    assert {**found, "seconds": 0} == {**whole, "seconds": 0} and whole["seconds"] > 0
    assert len(one.begin_answer(prompt, 1)["tokens"]) == 1


def test_drafters_alone_keep_their_options() -> None:
    found = parts("ngram-simple:n=2,m=5,suffix", ["ngram-simple", "suffix"])
    assert found == {"ngram-simple": "ngram-simple:n=2,m=5", "suffix": "suffix"}


def test_a_chain_of_one_is_no_chain(tiny: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from tools.bench.__main__ import main

    options = ["--model", str(tiny.path("llama")), "--kinds", "code", "--tokens", "4"]
    assert main(["chain", *options]) == 1
    assert "two drafters or more, and this one has suffix" in capsys.readouterr().err


def test_an_llm_without_its_drafter_is_not_measured(tiny: Any) -> None:
    """A drafter can be parked while the LLM is opened: then alone would mean without."""

    class Parked:
        def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
            return {"drafters": []}

    worker: Any = Parked()
    one = Arrangement("suffix", worker, "suffix", ("suffix",), needs_draft=False)
    with pytest.raises(BenchError, match="asked for suffix, and the drafters are now none"):
        chain._renew(Settings("chain", "tiny", tiny.path("llama")), one)
