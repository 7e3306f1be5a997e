"""Names, options and defaults of drafters."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyspec.drafters.base import Drafter
from pyspec.drafters.registry import DRAFTER_KINDS, DrafterSpec, drafter_names, parse_drafters
from pyspec.errors import FileFormatError, OptionError
from pyspec.llm.llm import LLM
from tests.fakes import FakeCore, FakeModel, looping
from tests.round.scripted import Scripted


def test_defaults_are_pinned(make_llm: Callable[..., LLM]) -> None:
    """C016 (ggml-org/llama.cpp#23544): defaults stop at low confidence, and changing one is a decision, not
    an accident.
    """
    defaults = {kind.name: {o.name: o.default for o in kind.options} for kind in DRAFTER_KINDS}
    assert defaults == {
        "suffix": {"m": 31, "p_min": 0.5, "memory": 256},
        "ngram-simple": {"n": 3, "m": 16},
        "ngram-map-k": {"n": 3, "m": 16, "min_hits": 1},
        "ngram-map-k4v": {"n": 3, "m": 4, "min_hits": 1},
        "ngram-mod": {"n_match": 4, "n_min": 2, "n_max": 16, "entries": 131072},
        "ngram-cache": {"n_max": 8, "static": "", "dynamic": "", "save": 0},
        "grammar": {"m": 32},
        "draft-simple": {"n_draft": 3, "p_min": 0.6, "n_min": 0, "coupled": 1},
    }
    target = looping()
    llm = make_llm(target, FakeModel("draft.gguf", span=2, like=target))
    assert llm.describe()["drafters"] == ["suffix", "draft-simple"]
    drafter = llm._chain.members[1].drafter
    assert (drafter.n_draft, drafter.p_min, drafter.n_min) == (3, 0.6, 0)
    ngram = make_llm(target, drafters="ngram-simple")._chain.members[0].drafter
    assert (ngram.n, ngram.m) == (3, 16)
    assert make_llm(target).describe()["drafters"] == ["suffix"]


def test_registry_order_is_the_priority(make_llm: Callable[..., LLM]) -> None:
    target = looping()
    names = [kind.name for kind in DRAFTER_KINDS]
    assert drafter_names() == ["none", *names]
    names.remove("grammar")  # takes part when a call has one
    llm = make_llm(target, FakeModel("draft.gguf", span=2), drafters=",".join(reversed(names)))
    assert llm.describe()["drafters"] == names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none", []),
        ([], []),
        (["none"], []),
        (None, []),
        ("ngram-simple", [("ngram-simple", {})]),
        ("ngram-simple:n=12,m=48", [("ngram-simple", {"n": 12, "m": 48})]),
        (
            "ngram-simple:n=3,m=48, draft-simple:n_draft=4,p_min=0.5",
            [("ngram-simple", {"n": 3, "m": 48}), ("draft-simple", {"n_draft": 4, "p_min": 0.5})],
        ),
        ("draft-simple,ngram-simple:n=2", [("draft-simple", {}), ("ngram-simple", {"n": 2})]),
        (["ngram-simple:m=9", "draft-simple"], [("ngram-simple", {"m": 9}), ("draft-simple", {})]),
        (DrafterSpec("ngram-simple"), [("ngram-simple", {})]),
        (
            "ngram-map-k:min_hits=2,ngram-map-k4v,ngram-mod:n_min=0,entries=1024,ngram-cache:n_max=4",
            [
                ("ngram-map-k", {"min_hits": 2}),
                ("ngram-map-k4v", {}),
                ("ngram-mod", {"n_min": 0, "entries": 1024}),
                ("ngram-cache", {"n_max": 4}),
            ],
        ),
    ],
)
def test_parsing(text: Any, expected: list[tuple[str, dict[str, float]]]) -> None:
    found = parse_drafters(text)
    assert [(item.name, dict(item.given)) for item in found] == expected
    again = parse_drafters(",".join(str(item) for item in found) or "none")
    assert [item.values() for item in again] == [item.values() for item in found]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ngram", r"unknown drafter 'ngram'.*valid names: none, .*ngram-simple, ngram-map-k, .*draft-simple"),
        ("ngram-simpel", r"did you mean 'ngram-simple'"),
        (["eagle3"], r"valid names: none, .*ngram-simple, .*draft-simple"),
        ("", "unknown drafter ''"),
        ("ngram-simple:k=3", r"ngram-simple has no option 'k'.*it has n, m"),
        ("ngram-simple:n=x", "n=x is not a whole number"),
        ("ngram-simple:n=1.5", "n=1.5 is not a whole number"),
        ("ngram-simple:n=0", r"n=0 is out of range 1\.\.1024"),
        ("draft-simple:p_min=1.5", r"p_min=1.5 is out of range 0\.\.1"),
        ("draft-simple:p_min=nan", "out of range"),
        ("draft-simple:n_draft=0", "out of range"),
        ("ngram-mod:n_min=9,n_max=8", "n_min=9 is above n_max=8"),
        (DrafterSpec("ngram-mod", (("n_min", 17),)), "n_min=17 is above n_max=16"),
        ("ngram-mod:entries=1000", r"entries=1000 is out of range 1024\.\.1\.67772e\+07"),
        ("ngram-map-k:min_hits=0", "min_hits=0 is out of range"),
        ("ngram-cache:save=2", r"save=2 is out of range 0\.\.1"),
        ("ngram-cache:save=1", "save=1 needs the file to write: dynamic=FILE"),
        ("ngram-cache:static=", "static='' is not a path"),
        ("ngram-simple:n", "expected NAME:option=value"),
        ("ngram-simple:", "expected NAME:option=value"),
        ("n=3", "does not belong to a drafter"),
        ("none:n=3", "does not belong to a drafter"),
        ("none,ngram-simple", "'none' cannot be combined"),
        ("ngram-simple,ngram-simple:n=3", "given twice"),
        ("ngram-simple:n=3,n=4", "n is given twice"),
        ([Drafter], "not the class Drafter"),
        ([object()], r"object is not a drafter: it lacks begin, propose"),
        (7, "int is not a drafter"),
    ],
)
def test_errors_say_what_is_valid(text: Any, message: str) -> None:
    """C010 (ggml-org/llama.cpp#25345): a misspelt name raises with the list of valid ones."""
    with pytest.raises(OptionError, match=message):
        parse_drafters(text)


def test_paths_are_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path may hold colons; it stands in the drafter's name, so that other files make another drafter; files that are
    missing are an error before any model file is opened.
    """
    file, folder = tmp_path / "a:b=c.bin", tmp_path / "folder"
    file.touch()
    folder.mkdir()
    for request in (f"ngram-cache:static={file}", f"ngram-cache:n_max=4,static={file},ngram-mod"):
        spec = parse_drafters(request)[0]
        assert isinstance(spec, DrafterSpec) and spec.values()["static"] == str(file)
        assert parse_drafters(str(spec)) == [spec] or spec.values() == parse_drafters(str(spec))[0].values()
        assert f"static={file}" in str(spec) and "dynamic" not in str(spec)
    monkeypatch.setenv("HOME", str(tmp_path))
    (spec,) = parse_drafters("ngram-cache:dynamic=~/a:b=c.bin,save=1")
    assert spec.values()["dynamic"] == str(file)
    new = tmp_path / "new.bin"
    parse_drafters(f"ngram-cache:dynamic={new},save=1")
    for options, message in [
        (f"static={new}", r"static=.*new\.bin does not exist$"),
        (f"dynamic={new}", r"dynamic=.*new\.bin does not exist \(save=1 makes a new one\)"),
        (f"static={folder}", "folder is not a file"),
        (f"dynamic={folder},save=1", "folder is not a file"),
        (f"dynamic={folder}/none/d.bin,save=1", "its folder does not exist"),
    ]:
        core = FakeCore(looping())
        with pytest.raises(OptionError, match=message):
            LLM("fake.gguf", drafters=f"ngram-cache:{options}", _backend=core.backend)
        assert core.opened == []


def test_a_cache_of_one_s_own(make_llm: Callable[..., LLM], tmp_path: Path) -> None:
    """save=1 through an LLM: the file is written when it is closed, and the next one reads it."""
    path = tmp_path / "d.bin"
    request = f"ngram-cache:dynamic={path},save=1"
    llm = make_llm(looping(), drafters=request)
    answer = llm.generate([5, 6, 7], max_tokens=60, temperature=0)
    assert not path.exists()
    llm.close()
    assert path.stat().st_size > 0
    again = make_llm(looping(), drafters=request).generate([5, 6, 7], max_tokens=60, temperature=0)
    assert again.tokens == answer.tokens
    assert again.stats.drafted > answer.stats.drafted
    path.write_bytes(b"something else")
    with pytest.raises(FileFormatError, match=r"d\.bin is not a table"):
        make_llm(looping(), drafters=request)


def test_a_drafter_that_needs_a_file_it_was_not_given() -> None:
    """C021 (sgl-project/sglang#36528): an error that names the missing argument, before any file is
    opened.
    """
    for drafters in ("draft-simple", ["ngram-simple", "draft-simple:n_draft=2"]):
        core = FakeCore(looping())
        with pytest.raises(OptionError, match=r"'draft-simple' needs a draft model: pass draft=FILE"):
            LLM("fake.gguf", drafters=drafters, _backend=core.backend)
        assert core.opened == []
    core = FakeCore(looping())
    with pytest.raises(OptionError, match="unknown drafter 'eagle3'"):
        LLM("fake.gguf", drafters=["eagle3"], _backend=core.backend)
    assert core.opened == []


def test_per_call_drafters_need_their_file_too(make_llm: Callable[..., LLM]) -> None:
    """C021 for one call."""
    llm = make_llm(looping())
    with pytest.raises(OptionError, match="pass draft=FILE"):
        llm.generate([5, 6], drafters="draft-simple")


def test_a_draft_file_is_never_loaded_for_nothing(make_llm: Callable[..., LLM]) -> None:
    """C010: draft= alone means draft-simple behind the default; drafters that would leave the file unused are
    an error; "none" loads nothing.
    """
    target = looping()
    draft = FakeModel("draft.gguf", span=2, like=target)
    llm = make_llm(target, draft)
    assert llm.generate([5, 6], max_tokens=20, temperature=0).stats.active_drafters == [
        "suffix",
        "draft-simple",
    ]
    core = FakeCore(target, draft)
    with pytest.raises(
        OptionError, match=r"draft=draft.gguf is given, but none of the drafters ngram-simple uses it"
    ):
        LLM("fake.gguf", draft="draft.gguf", drafters="ngram-simple", _backend=core.backend)
    assert core.opened == []
    plain = make_llm(core=core, draft="draft.gguf", drafters="none")
    assert core.opened == ["fake.gguf"] and plain.draft_model is None
    result = plain.generate([5, 6], max_tokens=20, temperature=0, drafters="draft-simple")
    assert result.stats.active_drafters == ["draft-simple"]
    assert core.opened == ["fake.gguf", "draft.gguf"]


def test_who_closes_drafter_objects(make_llm: Callable[..., LLM]) -> None:
    """Objects given to the LLM are closed with it; those given for one call are left alone and not kept
    alive.
    """
    own, lent = Scripted([], 2, 0, 2), Scripted([], 2, 0, 2)
    lent.name = "lent"
    llm = make_llm(looping(), drafters=[own])
    llm.generate([5, 6], max_tokens=5, drafters=[lent])
    llm.generate([5, 6], max_tokens=5)
    witness = weakref.ref(lent)
    assert lent.closed == 0
    del lent
    assert witness() is None
    llm.close()
    llm.close()
    assert own.closed == 1


def test_drafters_are_made_once(make_llm: Callable[..., LLM]) -> None:
    """Every request gives the same draft model's drafter, whatever its options, so its context stays warm between calls."""
    target = looping()
    llm = make_llm(target, FakeModel("draft.gguf", span=2, like=target))
    for _ in range(3):
        llm.generate([5, 6], max_tokens=5, drafters="draft-simple")
        llm.generate([5, 6], max_tokens=5, drafters="ngram-simple,draft-simple:n_draft=3")
    assert len(llm.core.contexts) == 2
    chain = llm._live_drafters().chain(parse_drafters("draft-simple:n_draft=9"))
    assert chain.max_draft == 9 and len(llm.core.contexts) == 2
    small, large = (llm._live_drafters().chain(parse_drafters(f"ngram-simple:m={m}")) for m in (4, 5))
    assert small is not large and (small.max_draft, large.max_draft) == (4, 5)
