"""The parts of the core that LLM is built from, as one argument: tests put their own in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Backend:
    """Classes and functions of pyspec.core, with their signatures."""

    Model: Callable[..., Any]
    Context: Callable[..., Any]
    Sampler: Callable[..., Any]
    SamplingParams: Callable[..., Any]
    CancelToken: Callable[[], Any]
    logprobs: Callable[..., tuple[float, list[tuple[int, float]]]]
    draft_choice: Callable[..., tuple[int, float]]
    memory_estimate: Callable[..., Any]


def core_backend() -> Backend:
    """The real one."""
    from pyspec.core.context import CancelToken, Context, memory_estimate
    from pyspec.core.model import Model
    from pyspec.core.sampler import Sampler, SamplingParams, draft_choice, logprobs

    return Backend(
        Model=Model,
        Context=Context,
        Sampler=Sampler,
        SamplingParams=SamplingParams,
        CancelToken=CancelToken,
        logprobs=logprobs,
        draft_choice=draft_choice,
        memory_estimate=memory_estimate,
    )
