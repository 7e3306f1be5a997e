"""check_pair: C043 (LostRuins/koboldcpp#2325), C044, C045 (ggml-org/llama.cpp#12635)."""

from __future__ import annotations

from typing import Any

import pytest

from pyspec.drafters.pair import check_pair
from pyspec.errors import FileFormatError, PairMismatchError
from pyspec.llm.llm import LLM
from tests.fakes import FakeCore, FakeModel, FakeVocab, default_texts


def model(path: str, texts: list[bytes] | None = None, **changes: Any) -> FakeModel:
    return FakeModel(path, vocab=FakeVocab(texts or default_texts(), **changes))


def changed(index: int, text: bytes) -> list[bytes]:
    texts = default_texts()
    texts[index] = text
    return texts


@pytest.mark.parametrize(
    ("target", "draft", "rules"),
    [
        ({}, {"kind": "llama"}, ["tokenizer kind: target gpt2, draft llama"]),
        ({"add_bos": True}, {}, ["add BOS: target True, draft False"]),
        ({"add_bos": True}, {"add_bos": True, "bos": 7}, ["BOS id: target 1, draft 7"]),
        ({"add_eos": True}, {"add_eos": True, "eos": 9}, ["EOS id: target 2, draft 9"]),
        ({}, {"add_eos": True}, ["add EOS: target False, draft True"]),
        ({}, {"texts": changed(30, b"zz")}, ["token text at id 30: target 'l', draft 'zz'"]),
        (
            {},
            {"texts": default_texts(177)},
            ["vocabulary size (at most 128 apart): target 48, draft 177"],
        ),
        (
            {"add_bos": True},
            {"kind": "llama", "texts": changed(6, b"\xff")},
            [
                "tokenizer kind: target gpt2, draft llama",
                "add BOS: target True, draft False",
                "token text at id 6: target ' cat', draft '\\\\xff'",
            ],
        ),
    ],
)
def test_every_failed_rule_is_listed_with_both_values(
    target: dict[str, Any], draft: dict[str, Any], rules: list[str]
) -> None:
    """C043."""
    report = check_pair(model("t.gguf", **target), model("d.gguf", **draft))
    assert not report.ok
    assert [str(failure) for failure in report.failures] == rules
    assert "ngram-simple" in str(report)  # C045: the refusal points to what works
    with pytest.raises(PairMismatchError, match=r"d\.gguf cannot draft for t\.gguf") as error:
        report.require()
    assert all(rule in str(error.value) for rule in rules)


@pytest.mark.parametrize(
    ("target", "draft"),
    [
        ({}, {}),
        ({}, {"texts": default_texts(176)}),  # C044: 128 padding ids
        ({"texts": default_texts(176)}, {}),
        ({}, {"texts": changed(4, b"another special")}),  # ids 0..4 are exempt
        ({}, {"bos": 3, "eos": 4}),  # ids that are not added do not matter
        ({}, {"pre": "qwen2"}),
    ],
)
def test_pairs_that_fit(target: dict[str, Any], draft: dict[str, Any]) -> None:
    report = check_pair(model("t.gguf", **target), model("d.gguf", **draft))
    assert report.ok, str(report)
    assert str(report) == "d.gguf can draft for t.gguf"
    report.require()


def test_files_are_opened_without_weights_and_closed() -> None:
    """C043: the same report without loading weights."""
    models = {"t.gguf": model("t.gguf"), "d.gguf": model("d.gguf", kind="llama")}
    options: list[dict[str, Any]] = []

    def opener(path: str, **given: Any) -> FakeModel:
        options.append(given)
        return models[str(path)]

    report = check_pair("t.gguf", "d.gguf", open_model=opener)
    assert [failure.rule for failure in report.failures] == ["tokenizer kind"]
    assert options == [{"metadata_only": True}] * 2
    assert all(m.closed == 1 for m in models.values())


def test_a_mismatch_raises_at_construction_and_closes_everything() -> None:
    """C043, C045: explicit or inferred, a draft that does not fit is an error with the whole report."""
    for drafters in (None, "draft-simple"):
        target, draft = model("fake.gguf"), model("draft.gguf", kind="llama")
        core = FakeCore(target, draft)
        with pytest.raises(PairMismatchError, match="tokenizer kind: target gpt2, draft llama"):
            LLM("fake.gguf", draft="draft.gguf", drafters=drafters, _backend=core.backend)
        assert target.closed and draft.closed and all(context.closed for context in core.contexts)


def test_a_draft_that_does_not_load(caplog: pytest.LogCaptureFixture) -> None:
    """C098 (PrismML-Eng/llama.cpp#173): an error by default; opt-in fallback logs once and says so in the
    stats.
    """
    core = FakeCore(model("fake.gguf"))
    with pytest.raises(FileFormatError, match=r"missing\.gguf"):
        LLM("fake.gguf", draft="missing.gguf", _backend=core.backend)
    with LLM("fake.gguf", draft="missing.gguf", draft_required=False, _backend=core.backend) as llm:
        assert len(caplog.records) == 1 and "decoding plainly" in caplog.text
        result = llm.generate([5, 6, 7], max_tokens=5, temperature=0)
        assert result.stats.active_drafters == [] and result.stats.drafters == {}
