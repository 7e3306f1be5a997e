"""ngram-cache: the token that most often followed the last 1 to 4 tokens, by counts of this text and of files.

Three tables: context (exact counts of the committed history), dynamic (a file, read at the start) and static (a file; its
n-grams of 2 tokens). Each drafted token is the first of: the context's candidate with lax thresholds, the dynamic
table's with strict ones, the static table's; longest n-gram first, counts multiplied by a hundred times the static ones
where there are any. Rule, thresholds and file format are llama.cpp's (lookup caches made with its llama-lookup-create
can be used), and a draft has at most 8 tokens as there.

save=1 writes the dynamic file when the drafter is closed: what it held, plus the counts of all text of the session. Until
then, text that leaves the history (the next conversation, a rolled context) is added to the dynamic table in memory, as
long as that has fewer than 2^20 n-grams (about 100 MB).
The file is replaced as a whole; of two sessions that save to one file the last wins.

Gaps of llama.cpp's drafter of this name that are closed here: n-grams that cross from one round to the next are not
counted, so that nothing is learnt from an answer; counts of an earlier, longer prompt stay and a shorter one is not
counted; the dynamic file is never written; a bad file ends the process.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile

from pyspec.core.ngram import NgramTable
from pyspec.drafters.ngram_drafter import NgramDrafter
from pyspec.errors import FileFormatError, OptionError

log = logging.getLogger("pyspec")


class NgramCache(NgramDrafter):
    """n_max: longest draft. n_vocab: ids in the files are below. dynamic, static: paths of files, "" for none. save: write
    the dynamic file (which need not exist yet) at `close`.

    Raises FileFormatError for a file that is not a lookup cache, or not one of this vocabulary.
    """

    name = "ngram-cache"
    priority = 50

    def __init__(
        self, n_max: int = 8, *, n_vocab: int, dynamic: str = "", static: str = "", save: bool = False
    ) -> None:
        if save and not dynamic:
            raise OptionError("ngram-cache: save=1 needs the file to write: dynamic=FILE")
        super().__init__(NgramTable("cache", m=n_max, n_vocab=n_vocab, learn=save))
        self.dynamic = dynamic
        self.saves = save
        try:
            if static:
                self.table.load("static", _read(static), static)
            if dynamic and not (save and not os.path.exists(dynamic)):
                self.table.load("dynamic", _read(dynamic), dynamic)
        except BaseException:
            self.table.close()
            raise

    def save(self, path: str | os.PathLike[str] | None = None) -> None:
        """Write dynamic and context counts to a file (default: the dynamic file), in one step. OSError when that fails."""
        path = os.fspath(path) if path is not None else self.dynamic
        if not path:
            raise OptionError("ngram-cache has no dynamic file to save to")
        write_file(path, self.table.save("learnt"))

    def close(self) -> None:
        if self.saves:
            self.saves = False
            try:
                self.save()
            except OSError as error:
                log.warning(
                    "ngram-cache: its counts are lost, %s could not be written: %s", self.dynamic, error
                )
        super().close()


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise FileFormatError(f"ngram-cache: {path} cannot be read: {error}") from None


def write_file(path: str, content: bytes) -> None:
    """Replace a file by new content: readers see the old one or the new one, never a part."""
    folder, name = os.path.split(os.path.realpath(path))
    handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, _mode_of(path))
        os.replace(temporary, os.path.join(folder, name))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _mode_of(path: str) -> int:
    """Permissions for the new file: those of the one it replaces, or of any new file."""
    try:
        return os.stat(path).st_mode & 0o777
    except OSError:
        return 0o644
