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


def test_several_reach_the_model(call: Call, some_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("options\n"))
    for verb in (("generate", some_file, "options"), ("chat", some_file)):
        _, out, _ = call(*verb, "--corpus", "a.corpus", "--corpus", "b.corpus")
        assert "corpora=['a.corpus', 'b.corpus']" in out


def test_what_cannot_become_one(call: Call, tiny: TinyFiles, tmp_path: Path) -> None:
    """One line that names the file; nothing is written, nothing is lost."""
    model = str(tiny.path("llama"))
    text, binary = tmp_path / "a.txt", tmp_path / "binary"
    text.write_text("text", encoding="utf-8")
    binary.write_bytes(b"\xff\x00")
    output = tmp_path / "out.corpus"
    for files, code, message in (
        ([text, tmp_path / "none.txt"], 2, "none.txt"),
        ([text, binary], 2, "is not a text: it is not UTF-8"),
        ([], 2, "FILE"),
    ):
        result, out, err = call("corpus", model, *map(str, files), "-o", str(output))
        assert (result, out) == (code, "") and message in err and err.count("\n") == 1, err
        assert not output.exists()
    code, _, err = call("corpus", model, str(text), "-o", str(text))
    assert code == 2 and "to be read and to be replaced" in err
    assert text.read_text(encoding="utf-8") == "text"
    code, _, err = call("corpus", model, str(text), "-o", str(tmp_path / "no folder" / "x"))
    assert code == 1 and "No such file or directory" in err and err.count("\n") == 1
    code, _, err = call("corpus", model, str(text))
    assert code == 2 and "--output" in err


def test_a_corpus_of_another_vocabulary(
    call: Call, tiny: TinyFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, corpus = tmp_path / "a.txt", tmp_path / "a.corpus"
    text.write_text("text", encoding="utf-8")
    assert call("corpus", str(tiny.path("llama")), str(text), "-o", str(corpus))[0] == 0
    assert main(["generate", str(tiny.path("qwen2")), "x", "--raw", "--corpus", str(corpus)]) == 3
    assert "made with another tokenizer" in capsys.readouterr().err
