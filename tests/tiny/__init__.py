"""Tiny random GGUF models of every family, for tests.

`make_model("qwen2", path)` writes a model of a few hundred kilobytes whose every part matters: matrices are
scaled by about 1.5/sqrt(fan-in), norm weights are random around one, epsilon is large, so a wrong
hyper-parameter or a swapped tensor changes the logits far beyond any tolerance. Vocabularies are small but
real for both tokenizers.

`python -m tests.tiny DIR` writes all families.
"""

from __future__ import annotations

from .build import TinyModel, build_model
from .families import FAMILIES, Hyper, is_slow, needs_wide, wide
from .perturb import perturbations
from .quantise import round_trip
from .write import DTYPES, make_model, write_model

__all__ = [
    "DTYPES",
    "FAMILIES",
    "Hyper",
    "TinyModel",
    "build_model",
    "is_slow",
    "make_model",
    "needs_wide",
    "perturbations",
    "round_trip",
    "wide",
    "write_model",
]
