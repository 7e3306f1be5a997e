"""What an opened LLM is and how much memory it uses, as plain data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspec.llm.results import MemoryUse

if TYPE_CHECKING:
    from pyspec.core.model import Model
    from pyspec.speculation.chain import Chain


def describe(
    model: Model, target: Any, rollback: str, draft_model: Any | None, chain: Chain
) -> dict[str, Any]:
    """Model, context and drafters by name. target: the target's Context."""
    info = model.info
    return {
        "path": os.fspath(model.path),
        "architecture": info.architecture,
        "name": info.name,
        "parameters": info.n_params,
        "file_bytes": info.file_bytes,
        "n_vocab": info.n_vocab,
        "n_ctx": target.n_ctx,
        "n_ctx_train": info.n_ctx_train,
        "n_threads": target.n_threads,
        "kernels": info.kernels,
        "kernel_runs": target.kernel_runs(),
        "packed_bytes": info.packed_bytes,
        "cache_types": (target.type_k, target.type_v),
        "rollback": rollback,
        "draft": None if draft_model is None else os.fspath(draft_model.path),
        "drafters": chain.active,
        "parked_drafters": chain.parked,
    }


def memory_use(target: Any, draft_contexts: Sequence[Any], shared: bool) -> MemoryUse:
    """Reports of the target's context and the drafts', added up. shared: both run on the same weights."""
    own = target.memory_report()
    drafts = [context.memory_report() for context in draft_contexts]
    reports = [own, *drafts]
    return MemoryUse(
        target=own,
        draft=drafts[0] if drafts else None,
        weight_bytes=own.weight_bytes + (drafts[0].weight_bytes if drafts and not shared else 0),
        cache_bytes=sum(report.cache_bytes for report in reports),
        compute_bytes=sum(report.compute_bytes for report in reports),
        output_bytes=sum(report.output_bytes for report in reports),
        available_bytes=own.available_bytes,
    )
