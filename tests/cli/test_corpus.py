"""`corpus` makes what `--corpus` takes: answers copy from it and stay the same."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from pyspec.cli import main
from pyspec.core.model import Model
from pyspec.drafters.corpus_file import read_corpus
from tests.cli.test_statistics import Call, call
from tests.conftest import TinyFiles

__all__ = ["call"]

PROMPT = "The quick brown fox"
GENERATE = ("--raw", "--json", "--max-tokens", "60", "--controller", "fixed")


def test_files_become_documents(tiny: TinyFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One document for each file, as it stands in an answer; what looks like a control token is text."""
    model = str(tiny.path("llama"))
    texts = {"a.txt": "The quick brown fox\njumps </s>", "empty.txt": "", "ä.txt": "Füchse 🦊"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    output = tmp_path / "some.corpus"
    assert main(["corpus", model, *(str(tmp_path / name) for name in texts), "-o", str(output)]) == 0
    out, err = capsys.readouterr()
    with Model(model, metadata_only=True) as opened:
        made = read_corpus(output, opened.vocab)
        encode, decode = opened.tokenizer.encode_continuation, opened.tokenizer.decode
        assert made.documents == [encode("\n" + text) for text in texts.values()]
        assert decode(made.documents[0], continuation=True).decode() == "\n" + texts["a.txt"]
        assert not set(made.tokens) & set(opened.vocab.eog)
    assert out == "" and err == f"{output}: 3 documents, {len(made.tokens)} tokens\n"


def test_answers_are_copied_from_it(
    tiny: TinyFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(tiny.path("llama"))

    def answer(*options: str) -> tuple[str, int]:
        assert main(["generate", model, PROMPT, *GENERATE, *options]) == 0
        data = json.loads(capsys.readouterr().out)
        return data["text"], data["stats"]["accepted"]

    text, accepted = answer()
    (tmp_path / "old.txt").write_text(PROMPT + text, encoding="utf-8")
    corpus = str(tmp_path / "old.corpus")
    assert main(["corpus", model, str(tmp_path / "old.txt"), "--output", corpus]) == 0
    capsys.readouterr()
    again, copied = answer("--corpus", corpus)
    assert again == text
    assert copied > accepted + 10


def test_several_reach_the_model(
    call: Call, some_file: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("options\n"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("a.corpus", "b.corpus"):
        (tmp_path / name).touch()
    for verb in (("generate", some_file, "options"), ("chat", some_file)):
        code, out, _ = call(*verb, "--corpus", str(tmp_path / "a.corpus"), "--corpus", "~/b.corpus")
        assert code == 0
        assert f"corpora={[tmp_path / 'a.corpus', tmp_path / 'b.corpus']}" in out
        code, out, err = call(*verb, "--corpus", str(tmp_path / "none"))
        assert (code, out) == (2, "") and "expected a corpus made by `pyspec-cli corpus`" in err


def test_what_cannot_become_one(call: Call, tiny: TinyFiles, tmp_path: Path) -> None:
    """One line that names the file; nothing is written, nothing is lost."""
    model = str(tiny.path("llama"))
    text, binary = tmp_path / "a.txt", tmp_path / "binary"
    text.write_text("text", encoding="utf-8")
    binary.write_bytes(b"\xff\x00")
    output = tmp_path / "out.corpus"
    for files, code, message in (
        ([text, tmp_path / "none.txt"], 2, "none.txt"),
        ([text, binary], 2, "is not a text file: it is not UTF-8"),
        ([text, tmp_path], 2, "is a folder (expected a text file)"),
        ([], 2, "FILE"),
    ):
        result, out, err = call("corpus", model, *map(str, files), "-o", str(output))
        assert (result, out) == (code, "") and message in err and err.count("\n") == 1, err
        assert not output.exists()
    code, _, err = call("corpus", model, str(text))
    assert code == 2 and "--output" in err


def test_only_a_corpus_is_replaced(call: Call, tiny: TinyFiles, tmp_path: Path) -> None:
    """Not a text that is read, not the model, nothing else; what cannot be written is said before any work."""
    model, text = tmp_path / "model.gguf", tmp_path / "a.txt"
    model.write_bytes(tiny.path("llama").read_bytes())
    text.write_text("text", encoding="utf-8")
    for output, message in (
        (text, "exists and is no corpus"),
        (model, "exists and is no corpus"),
        (tmp_path, "is a folder"),
        (tmp_path / "none" / "x", f"there is no folder {tmp_path / 'none'}"),
    ):
        code, _, err = call("corpus", str(model), str(text), "-o", str(output))
        assert code == 2 and message in err and err.count("\n") == 1
    assert text.read_text(encoding="utf-8") == "text"
    assert model.read_bytes() == tiny.path("llama").read_bytes()
    output = tmp_path / "some.corpus"
    for content in ("one", "one two three"):
        text.write_text(content, encoding="utf-8-sig")
        assert call("corpus", str(model), str(text), "-o", str(output))[0] == 0
    with Model(model, metadata_only=True) as opened:
        (document,) = read_corpus(output, opened.vocab).documents
        assert opened.tokenizer.decode(document, continuation=True) == b"\none two three"


def test_a_corpus_of_another_vocabulary(
    call: Call, tiny: TinyFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, corpus = tmp_path / "a.txt", tmp_path / "a.corpus"
    text.write_text("text", encoding="utf-8")
    assert call("corpus", str(tiny.path("llama")), str(text), "-o", str(corpus))[0] == 0
    assert main(["generate", str(tiny.path("qwen2")), "x", "--raw", "--corpus", str(corpus)]) == 3
    assert "made with another tokenizer" in capsys.readouterr().err
