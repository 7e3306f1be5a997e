"""ngram-simple: copy what followed the last occurrence of the current n tokens.

Rule (the one of llama.cpp's drafter of the same name). With L history tokens t[0..L-1], the key is the last
n-1 of them and the last sampled token. Look for the key at starts L-n-1 down to 1; the first hit decides. The
draft is what follows it, at most m tokens; fewer than n are not worth a verification, and then no older hit
is tried. Histories of n+m+1 tokens or fewer give nothing.

llama.cpp scans the history for each draft; here an index in the core makes a round cost what it adds. Its settings,
n=12 and m=48, need long copies. On ten replayed answers of a 0.5B model, with lengths chosen from confidence and cost,
n=2, 3, 4 gave 1.60, 1.54, 1.51 times plain speed and n=12, m=48 1.33; whole drafts, without that choice, 1.21, 1.30 and
1.40. Hence n=3, m=16.
"""

from __future__ import annotations

from pyspec.core.ngram import NgramTable
from pyspec.drafters.ngram_drafter import NgramDrafter


class NgramSimple(NgramDrafter):
    """Drafter from the session's own text. n: tokens that must match, and the shortest draft. m: longest draft."""

    name = "ngram-simple"
    priority = 10

    def __init__(self, n: int = 3, m: int = 16) -> None:
        super().__init__(NgramTable("simple", n=n, m=m))
        self.n = n
        self.m = m
