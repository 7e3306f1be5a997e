"""Vocabularies for the tokenizer tests and, where they come from files, their oracle."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pyspec.core.tokenizer import Tokenizer, make_tokenizer
from pyspec.core.vocab import Vocab
from tests.tokenizers.oracle_vocab import OracleVocab
from tests.tokenizers.vocab_from_gguf import read_vocab, write_with_pre

_ORACLE = "llama-cpp-python==0.3.36"
_COMPLETE = "complete"


@dataclass
class Case:
    """One vocabulary: ours and the oracle's."""

    name: str
    vocab: Vocab
    tokenizer: Tokenizer
    oracle: OracleVocab


@pytest.fixture(scope="session")
def vocab_folder() -> Path:
    """Folder with the vocabulary files that come with llama.cpp's sources.

    Taken once from the oracle's source archive (pip has it in its cache where the oracle was installed from source) and
    kept beside the model cache. Skips when the archive cannot be had.
    """
    from pyspec.fetch import cache_dir

    folder = cache_dir().parent / "test-vocabularies"
    if not (folder / _COMPLETE).exists():
        with tempfile.TemporaryDirectory() as temporary:
            _extract(_download(Path(temporary)), folder)
        (folder / _COMPLETE).write_text(_ORACLE)
    return folder


def _download(target: Path) -> Path:
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--no-binary",
        "llama-cpp-python",
        "-d",
        str(target),
    ]
    errors = []
    for extra in (["--no-build-isolation"], []):  # pip runs the archive's build backend to read its name
        try:
            done = subprocess.run(
                [*pip, *extra, _ORACLE], capture_output=True, text=True, timeout=300, check=False
            )
        except subprocess.TimeoutExpired:
            errors.append("no answer in 300 s")
            continue
        found = list(target.glob("llama_cpp_python-*.tar.gz"))
        if done.returncode == 0 and found:
            return found[0]
        errors.append((done.stderr.strip().splitlines() or ["no message"])[-1])
    pytest.skip(f"the source archive of {_ORACLE} (for its vocabulary files) cannot be downloaded: {errors}")


def _extract(archive: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as tar:
        for member in tar:
            name = Path(member.name).name
            if member.isfile() and name.startswith("ggml-vocab-") and (stream := tar.extractfile(member)):
                (folder / name).write_bytes(stream.read())


@pytest.fixture(scope="session")
def vocab_path(
    vocab_folder: Path, real_model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Function from a name to a file: "llama-bpe" is llama.cpp's vocabulary file, "model:smollm2" a real model,
    "llama-bpe/tekken" the vocabulary file with another pre-tokenizer."""
    made = tmp_path_factory.mktemp("vocabularies")

    def path(name: str) -> Path:
        if name.startswith("model:"):
            return real_model(name.removeprefix("model:"))
        base, _, pre = name.partition("/")
        source = vocab_folder / f"ggml-vocab-{base}.gguf"
        if not pre:
            return source
        target = made / f"{base}-{pre}.gguf"
        if not target.exists():
            write_with_pre(source, target, pre)
        return target

    return path


@pytest.fixture(scope="module")
def case(request: pytest.FixtureRequest, vocab_path: Callable[[str], Path]) -> Iterator[Case]:
    """Parametrised indirectly with a vocabulary's name; one is in memory at a time."""
    path = vocab_path(request.param)
    vocab = read_vocab(path)
    oracle = OracleVocab(path)
    try:
        yield Case(request.param, vocab, make_tokenizer(vocab), oracle)
    finally:
        oracle.close()
