"""`pyspec-cli corpus`: text files made into a corpus file, which drafts are copied from (`--corpus`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pyspec.cli import options as opt
from pyspec.cli.common import note

if TYPE_CHECKING:
    from pyspec.core.tokenizer import Tokenizer


def corpus(
    model: opt.Model,
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Text files (UTF-8), each a document of the corpus."),
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The corpus file; an old one is replaced.")
    ],
    offline: opt.Offline = False,
    accept_licence: opt.AcceptLicence = False,
) -> None:
    """Make text files into a corpus for `--corpus`: answers that repeat parts of them come faster.

    A corpus fits all models with MODEL's vocabulary; its weights are not loaded. In use it takes about 90 bytes of memory for
    each token.
    """
    from pyspec.cli.common import find_model
    from pyspec.core.model import Model
    from pyspec.drafters.corpus_file import write_corpus

    texts = _read(files, Path(output).expanduser())
    path = find_model(model, offline=offline, accept_licence=accept_licence)
    with Model(path, metadata_only=True) as opened:
        made = write_corpus(Path(output).expanduser(), _documents(opened.tokenizer, texts), opened.vocab)
    n = len(made.ends)
    note(f"{output}: {n} {'document' if n == 1 else 'documents'}, {len(made.tokens):,} tokens")


def _read(files: Sequence[str], output: Path) -> list[str]:
    """The texts of all files, before any work is done. OptionError names the one that cannot be read."""
    from pyspec.cli.formats import read_text
    from pyspec.errors import OptionError

    texts = []
    for name in files:
        path = Path(name).expanduser()
        if output.exists() and path.exists() and output.samefile(path):
            raise OptionError(f"{name} is to be read and to be replaced by the corpus; give another --output")
        texts.append(read_text(path, "text"))
    return texts


def _documents(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[list[int]]:
    """Ids as models emit them: a text inside an answer, after a line break, where nothing is a control token."""
    for text in texts:
        yield tokenizer.encode_continuation("\n" + text)
