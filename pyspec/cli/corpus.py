"""`pyspec-cli corpus`: text files made into a corpus file, which `--corpus` of other verbs takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
        str, typer.Option("--output", "-o", metavar="FILE", help="The corpus file; an older one is replaced.")
    ],
    offline: opt.Offline = False,
    accept_licence: opt.AcceptLicence = False,
) -> None:
    """Make text files into a corpus for `--corpus`: answers that repeat parts of them come faster.

    A corpus fits every model with the vocabulary of MODEL, whose weights are not loaded. In use it takes about 90 bytes of
    memory for each token.
    """
    from pyspec.cli.common import existing_files, find_model
    from pyspec.cli.session import progress_line
    from pyspec.core.model import Model
    from pyspec.drafters.corpus_file import write_corpus

    paths = existing_files(files, "text file")
    target = _target(output)
    path = find_model(model, offline=offline, accept_licence=accept_licence)
    with Model(path, metadata_only=True) as opened, progress_line("reading texts") as progress:
        made = write_corpus(target, _documents(opened.tokenizer, paths, progress), opened.vocab)
    n = len(made.ends)
    note(f"{output}: {n} {'document' if n == 1 else 'documents'}, {len(made.tokens):,} tokens")


def _target(output: str) -> Path:
    """Where the corpus goes. OptionError for what cannot be written, or is something else than a corpus."""
    from pyspec.drafters.corpus_file import is_corpus
    from pyspec.errors import OptionError

    path = Path(output).expanduser()
    if not path.parent.is_dir():
        raise OptionError(f"--output {output}: there is no folder {path.parent}")
    if path.is_dir():
        raise OptionError(f"--output {output} is a folder; give the name of a file")
    if path.exists() and not is_corpus(path):
        raise OptionError(
            f"--output {output} exists and is no corpus; it is left as it is, give another name"
        )
    return path


def _documents(
    tokenizer: Tokenizer, paths: Sequence[Path], progress: Callable[[float], None]
) -> Iterator[list[int]]:
    """Ids as models emit them: a text inside an answer, after a line break, where nothing is a control token."""
    from pyspec.cli.formats import read_text

    sizes = [path.stat().st_size for path in paths]
    total, done = max(1, sum(sizes)), 0
    for path, size in zip(paths, sizes, strict=True):
        yield tokenizer.encode_continuation("\n" + read_text(path, "text file"))
        done += size
        progress(done / total)
