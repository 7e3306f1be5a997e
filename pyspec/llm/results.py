"""What calls of LLM return: plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyspec.speculation.stats import Stats


@dataclass(slots=True)
class TokenLogprob:
    """Log-probability (natural logarithm) of one token of the answer, and the best candidates at its
    place.
    """

    token: int
    logprob: float
    top: list[tuple[int, float]] = field(default_factory=list)


@dataclass(slots=True)
class Usage:
    """Token counts; total = prompt + completion, completion = len(result.tokens)."""

    prompt: int
    completion: int

    @property
    def total(self) -> int:
        return self.prompt + self.completion


@dataclass(slots=True)
class GenerationResult:
    """An answer.

    finish_reason: "stop" (an end token or a stop string; stopped_by says which), "length" (max_tokens or the
    end of the context) or "cancelled". The end token and the stop string belong neither to text nor to
    tokens. seed repeats the run.
    """

    text: str
    tokens: list[int]
    logprobs: list[TokenLogprob] | None
    finish_reason: str
    usage: Usage
    stats: Stats
    seed: int
    stopped_by: str | int | None = None


@dataclass(slots=True)
class ChatResult(GenerationResult):
    """An answer in a conversation. dropped_messages: how many of the oldest were left out to make it fit."""

    dropped_messages: int = 0

    @property
    def message(self) -> dict[str, Any]:
        """The answer as a message to append to the conversation."""
        return {"role": "assistant", "content": self.text}


@dataclass(slots=True)
class Chunk:
    """A piece of a streamed answer. The last one has a finish_reason and the whole result; its text may be
    empty.
    """

    text: str
    tokens: list[int]
    logprobs: list[TokenLogprob] | None = None
    finish_reason: str | None = None
    result: GenerationResult | None = None


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes, by model. Weights that both models share are counted once, with the target."""

    target: Any
    draft: Any | None
    weight_bytes: int
    cache_bytes: int
    compute_bytes: int
    output_bytes: int
    available_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.weight_bytes + self.cache_bytes + self.compute_bytes + self.output_bytes
