"""A stand-in for pyspec.LLM that answers from a script, and the program built on it.

    python tests/cli/fake_llm.py chat some.gguf

What it says: a question with "long" in it gets 300 numbered words at 20 ms each, one with "many" in
it gets them at once, one with "wide" gets wide characters and
emoji, one with "escape" gets terminal control characters, "code" a fenced block; everything else is answered with the
number of messages and an echo. Tokens are words. A conversation longer than n_ctx raises ContextFullError or loses its
oldest turns, as with the real thing. FAKE_NO_TEMPLATE=1: the file has no chat template.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from pyspec.cli.app import main
from pyspec.cli.common import Runtime
from pyspec.drafters.registry import parse_drafters
from pyspec.errors import ContextFullError, OptionError
from pyspec.llm.chat_overflow import answer_reserve, drop_oldest, front_length
from pyspec.llm.results import ChatResult, Chunk, Usage
from pyspec.speculation.stats import ControllerStats, DrafterStats, Stats

WIDE = "日本語の文章は空白なしで続きます。" * 8 + " 👩‍🚀 naïve café"
LONG_LINE = (
    "print('a line of code that is far longer than eighty columns and must not be wrapped by the chat')"
)
CODE = f"Here:\n```python\n{LONG_LINE}\n```\nDone."
ESCAPES = "before \x1b[2J\x1b]0;title\x07 after"


class FakeLLM:
    """The part of LLM's interface that the command line uses."""

    def __init__(
        self, path: Any, draft: Any = None, drafters: Any = None, *, n_ctx: int = 4096, **options: Any
    ) -> None:
        known = {
            "progress",
            "corpora",
            "n_draft",
            "n_threads",
            "template",
            "type_k",
            "type_v",
            "pack_weights",
        }
        if set(options) - known:
            raise OptionError(f"unknown options {sorted(set(options) - known)}")
        if n_ctx < 0:
            raise OptionError(f"n_ctx must be a whole number >= 0, not {n_ctx}")
        self.wanted = [item.name for item in parse_drafters(drafters)]
        if drafters is None and draft is not None:
            self.wanted = ["draft-simple"]
        if "progress" in options:
            options["progress"](1.0)
        self.corpora = options.get("corpora")
        self.n_ctx = n_ctx
        self._dropped = 0
        self._cancelled = threading.Event()
        self.session_stats = Stats(generations=0)
        keys = {} if os.environ.get("FAKE_NO_TEMPLATE") else {"tokenizer.chat_template": b"{{ messages }}"}
        self.model = SimpleNamespace(path=path, metadata=keys, meta_str=keys.get)

    def __enter__(self) -> FakeLLM:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def describe(self) -> dict[str, Any]:
        return {"drafters": self.wanted}

    def tokenize(self, text: str) -> list[int]:
        return list(range(len(text.split())))

    def cancel(self) -> None:
        self._cancelled.set()

    def chat(
        self, messages: list[dict[str, str]], *, stream: bool = False, overflow: str = "error", **options: Any
    ) -> Any:
        question = messages[-1]["content"]
        self._dropped = 0
        if overflow == "drop_oldest":
            room = self.n_ctx - answer_reserve(None, options.get("max_tokens"), self.n_ctx)
            _, self._dropped = drop_oldest(messages, _words, room)
        n_front = front_length(messages)
        messages = [*messages[:n_front], *messages[n_front + self._dropped :]]
        roles = "".join(message["role"][0] for message in messages)
        delay = 0.0
        if "long" in question or "many" in question:
            words, delay = [f"word{number} " for number in range(300)], 0.02 if "long" in question else 0.0
        elif "wide" in question:
            words = list(WIDE)
        elif "code" in question:
            words = CODE.split(" ")
            words = [word + " " for word in words[:-1]] + words[-1:]
        elif "options" in question:
            given = options | ({"corpora": self.corpora} if self.corpora else {})
            words = [" ".join(f"{name}={value!r}" for name, value in sorted(given.items()))]
        elif "escape" in question:
            words = [ESCAPES]
        elif "fail" in question:
            raise ValueError("something unexpected")
        else:
            words = [f"[{roles}] ", "you ", "said: ", question]
        prompt = len(_words(messages))
        return (
            self._answer(words, prompt, delay, options)
            if stream
            else self._last(words, prompt, delay, options)
        )

    def stream(self, prompt: str, **options: Any) -> Iterator[Chunk]:
        return self._answer(["<raw> ", prompt], len(prompt.split()), 0.0, options)

    def generate(self, prompt: Any, **options: Any) -> Any:
        return self._last(["<raw>"], len(prompt), 0.0, options)

    def _last(self, *arguments: Any) -> Any:
        return [chunk.result for chunk in self._answer(*arguments)][-1]

    def _answer(
        self, words: list[str], prompt: int, delay: float, options: dict[str, Any]
    ) -> Iterator[Chunk]:
        if prompt > self.n_ctx:
            raise ContextFullError(f"the prompt has {prompt} tokens, the context holds n_ctx={self.n_ctx}")
        self._cancelled.clear()
        limit = options.get("max_tokens")
        limit = self.n_ctx - prompt if limit is None else min(limit, self.n_ctx - prompt)
        said: list[str] = []
        reason = "stop"
        for word in words:
            if len(said) >= limit:
                reason = "length"
                break
            if self._cancelled.wait(delay) if delay else self._cancelled.is_set():
                reason = "cancelled"
                break
            said.append(word)
            yield Chunk(word, [len(said)])
        yield Chunk("", [], None, reason, self._result(said, prompt, reason, options))

    def _result(self, said: list[str], prompt: int, reason: str, options: dict[str, Any]) -> ChatResult:
        drafters = options.get("drafters")
        names = self.wanted if drafters is None else [item.name for item in parse_drafters(drafters)]
        stats = Stats(rounds=len(said), verifications=10, drafted=31, accepted=27, active_drafters=names)
        stats.chosen = len(said) - stats.accepted  # short answers make this negative; the sums hold
        stats.prompt_tokens_evaluated = prompt
        stats.prompt_ms, stats.generation_ms, stats.tokens_per_second = 100.0, 500.0, 41.24
        for name in names:
            stats.drafters[name] = DrafterStats(12, 10, 31, 27, [10, 10, 11], [10, 9, 8], 12.0, 1.5, 0.5, 10)
        if names:
            costs = {1: 20.0, 2: 20.5, 4: 24.1, 8: 40.0}
            stats.controller = ControllerStats(costs, {0: 3, 1: 1, 3: 7, 4: 2, 12: 1}, 2, 310.0, 45.0)
        self.session_stats.add(stats)
        tokens = list(range(len(said)))
        return ChatResult(
            "".join(said),
            tokens,
            None,
            reason,
            Usage(prompt, len(said)),
            stats,
            options.get("seed") or 7,
            dropped_messages=self._dropped,
        )


def _words(messages: Sequence[Mapping[str, Any]]) -> list[int]:
    return [0] * sum(len(message["content"].split()) for message in messages)


if __name__ == "__main__":
    sys.exit(main(runtime=Runtime(llm_factory=FakeLLM)))
