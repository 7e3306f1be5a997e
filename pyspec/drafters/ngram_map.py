"""ngram-map-k and ngram-map-k4v: the session's n-grams as keys, the m tokens that followed them as values.

The key is the last n-1 tokens of the history and the last sampled token; an occurrence counts when all m tokens after
it exist. map-k drafts the value of the newest occurrence. map-k4v counts up to four distinct values of a key and drafts
the most frequent one if it has at least twice as many occurrences as all others together. Keys with fewer than
min_hits occurrences draft nothing.

Each key (map-k) or value (map-k4v) has a draft length: m at first, then what came true of its last draft, at least 1,
and twice as much after a draft that came true as a whole. The tokens that the target emits decide that, whether the draft
was verified or not.

Gaps of llama.cpp's drafters of these names that are closed here: a length that fell to 0 stays 0; min_hits counts
lookups and is ignored by map-k; the last occurrence is counted again at each lookup; the draft is not copied from the
value that won, a fifth value is not counted at all; which occurrence is found depends on when earlier drafts were
asked for; a longer, unrelated prompt leaves stale entries.

Short continuations are known sooner and agree more often, so map-k4v has m=4: on the replayed answers of ngram_simple
1.46 times plain speed, 1.41 with m=16 (map-k with n=3, m=16: 1.53).
"""

from __future__ import annotations

from pyspec.core.ngram import NgramTable
from pyspec.drafters.ngram_drafter import NgramDrafter


class NgramMapK(NgramDrafter):
    """One value for each n-gram. n: tokens that must match. m: longest draft. min_hits: occurrences it takes."""

    name = "ngram-map-k"
    priority = 20

    def __init__(self, n: int = 3, m: int = 16, min_hits: int = 1) -> None:
        super().__init__(NgramTable("map-k", n=n, m=m, min_hits=min_hits))


class NgramMapK4v(NgramDrafter):
    """Up to four counted values for each n-gram. n: tokens that must match. m: longest draft. min_hits: occurrences
    it takes.
    """

    name = "ngram-map-k4v"
    priority = 30

    def __init__(self, n: int = 3, m: int = 4, min_hits: int = 1) -> None:
        super().__init__(NgramTable("map-k4v", n=n, m=m, min_hits=min_hits))
