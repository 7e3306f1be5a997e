"""Undoing rejected tokens in the target's memory, and whether that is possible at all.

`Context.probe_rollback` finds out by trying: PART (any range can go) and TAIL (a bounded tail) can drop
rejected tokens; FULL (all or nothing) and NO cannot. Without that, a session decodes plainly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspec.errors import InternalError, UnsupportedError

if TYPE_CHECKING:
    from pyspec.core.context import Context


def can_speculate(rollback: str) -> bool:
    """Can a context with this probe result (its name) drop rejected tokens?"""
    return rollback in ("PART", "TAIL")


def require_speculation(rollback: str, drafters: list[str]) -> None:
    """UnsupportedError unless rejected tokens can be undone."""
    if not can_speculate(rollback):
        what = {
            "FULL": "can only be emptied as a whole",
            "NO": "cannot undo anything",
        }.get(rollback, f"has rollback {rollback}")
        raise UnsupportedError(
            f"drafters {', '.join(drafters)} cannot work with this target: its memory {what}, so rejected "
            "tokens could not be removed. Use drafters='none'"
        )


def keep(target: Context, n_tokens: int) -> None:
    """Drop every position from n_tokens on. A refusal here contradicts the probe: the session is stopped by
    an error.
    """
    if not target.seq_rm(0, n_tokens, -1):
        raise InternalError(
            f"the target's memory refused to drop positions from {n_tokens} on, which its probe allowed"
        )


def try_keep(target: Context, n_tokens: int) -> bool:
    """Like keep, for memories that may refuse; False: nothing has changed."""
    return bool(target.seq_pos_max(0) < n_tokens or target.seq_rm(0, n_tokens, -1))
