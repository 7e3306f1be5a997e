"""Drafters: one file per drafter, one protocol (`base`), one registry line each (`registry`)."""

from __future__ import annotations

from pyspec.drafters.base import Draft, Drafter, Needs, Verdict

__all__ = ["Draft", "Drafter", "Needs", "Verdict"]
