"""ngram-mod: a table of fixed size from the hash of n tokens to the token that followed them last.

A draft is walked token by token, drafted tokens included, until nothing is found or n_max tokens are there; a walk of
fewer than n_min is no draft. The table belongs to one session and remembers all of its text, also what has left the
history (an answer before it is asked for again); a newer continuation replaces an older one. It is emptied, and the
present history entered again, when a generation begins with more than a quarter of it in use, and after five rounds in a
row in which less than a quarter of this drafter's verified draft was accepted.

Gaps of llama.cpp's drafter of this name that are closed here: one table is shared by all sessions, so that the same
request drafts differently from run to run; entries do not say which n-gram they belong to, so that a filling table
invents continuations; after a reset the history stays forgotten; a draft cut before verification counts as a bad one.
llama.cpp's settings (n=24, n_min=48, n_max=64) draft long verbatim copies only; the defaults here also serve short ones.
"""

from __future__ import annotations

from pyspec.core.ngram import NgramTable
from pyspec.drafters.ngram_drafter import NgramDrafter


class NgramMod(NgramDrafter):
    """n_match: tokens that must match. n_min: shorter drafts are dropped. n_max: longest draft. entries: size of the
    table, 8 bytes each.
    """

    name = "ngram-mod"
    priority = 40

    def __init__(self, n_match: int = 4, n_min: int = 2, n_max: int = 16, entries: int = 1 << 17) -> None:
        super().__init__(NgramTable("mod", n=n_match, n_min=n_min, m=n_max, n_entries=entries))
