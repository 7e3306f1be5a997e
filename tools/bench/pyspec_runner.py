"""pyspec as a contestant: the low level for decodes, `LLM` for answers, loading and rounds."""

from __future__ import annotations

import random
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from .contestant import Contestant, memory_in_use
from .roofline import multiplied_matrices


class PyspecContestant(Contestant):
    """Model and Context for `decode`, `prefill` and `width`; an LLM for everything that generates."""

    COMMANDS = (
        *Contestant.COMMANDS,
        "ids",
        "open_llm",
        "chat_ids",
        "rounds",
        "sampled",
        "begin_answer",
        "go_on",
    )

    def __init__(self) -> None:
        super().__init__()
        self._context: Any = None
        self._model: Any = None
        self._llm: Any = None
        self._recorded: dict[tuple[int, ...], list[int]] = {}
        self._stream: Any = None
        self._paused_at = self._pause = self._waited = 0.0

    def import_library(self) -> None:
        try:
            from pyspec import LLM  # noqa: F401  (it is imported when it is named)
            from pyspec._native import lib
        except ImportError as error:
            raise RuntimeError(
                f"pyspec cannot be imported ({error}); install it from its source folder with `pip install .`"
            ) from None
        lib()

    def about(self) -> dict[str, str]:
        from pyspec import __version__
        from pyspec._native import build_info

        build = build_info()
        kind = "portable" if build["portable"] else "native"
        text = f"{__version__} (ggml {build['ggml']}, {build['compiler']}, {build['build_type']}, {kind})"
        return {"name": "pyspec", "version": text}

    def open(
        self, path: str, *, threads: int, n_ctx: int, n_outputs: int, kernels: str = "auto"
    ) -> dict[str, Any]:
        from pyspec import Context, Model

        self._model = Model(path, kernels=kernels)
        info = self._model.info
        n_ctx_train = info.n_ctx_train
        self._context = Context(
            self._model,
            n_ctx=min(n_ctx, n_ctx_train) if n_ctx_train > 0 else n_ctx,
            n_threads=threads,
            n_outputs=n_outputs,
        )
        return {
            "threads": self._context.n_threads,
            "n_ctx": self._context.n_ctx,
            "kernels": info.kernels,
            "matrices": multiplied_matrices(self._model.tensors, info.n_expert, info.n_expert_used),
        }

    def append(self, tokens: Sequence[int], rows: str) -> None:
        outputs = None if rows == "last" else rows
        n_batch = self._context.n_batch
        last = (len(tokens) - 1) // n_batch * n_batch
        for first in range(0, last, n_batch):
            self._context.decode(
                tokens[first : first + n_batch], outputs="none" if outputs is None else outputs
            )
        self._context.decode(tokens[last:], outputs=outputs)

    def drop(self, position: int) -> None:
        if not self._context.seq_rm(0, position, -1):
            raise RuntimeError("this model's memory cannot drop tokens")

    def best(self) -> int:
        raise NotImplementedError("answers of pyspec come from LLM")

    def is_end(self, token: int) -> bool:
        return bool(self._model.is_eog(token))

    def ids(self, text: str, n: int) -> dict[str, list[int]]:
        """n token ids of a text, repeated as often as needed; with the opened model's vocabulary."""
        model = self._model or self._llm.model
        first = model.tokenizer.encode(text, add_special=True)
        again = model.tokenizer.encode(text, add_special=False)
        return {"ids": (first + again * (n // len(again) + 1))[:n]}

    # ---- with LLM

    def open_llm(
        self,
        path: str,
        *,
        threads: int,
        n_ctx: int,
        draft: str | None = None,
        drafters: str | None = None,
        n_draft: int | None = None,
        controller: str | None = None,
    ) -> dict[str, Any]:
        """A new LLM in place of the last one, so that no drafter remembers an earlier answer; warmed up."""
        from pyspec import LLM

        if self._llm is not None:
            self._llm.close()
        self._llm = LLM(
            path,
            draft=draft,
            drafters=drafters,
            n_draft=n_draft,
            controller=controller,
            n_ctx=n_ctx,
            n_threads=threads,
        )
        about = self._llm.describe()
        self._llm.generate("One, two, three, four,", max_tokens=8, temperature=0.0)
        self._llm.reset()
        return {"threads": about["n_threads"], "n_ctx": about["n_ctx"], "drafters": about["drafters"]}

    def chat_ids(self, messages: list[str]) -> dict[str, Any]:
        """Each message as one user turn through the file's template, as token ids; as it is when there is none."""
        from pyspec.llm.chat_prompt import chat_ids

        llm = self._llm
        templated = llm.model.meta_str("tokenizer.chat_template") is not None
        found = []
        for text in messages:
            if templated:
                turn = llm.template.render([{"role": "user", "content": text}], add_generation_prompt=True)
                found.append(chat_ids(llm.model, turn))
            else:
                found.append(llm.tokenize(text))
        return {"ids": found, "templated": templated}

    def answer(self, ids: list[int], max_tokens: int, plain: bool = False) -> dict[str, Any]:
        """plain: without drafters, which do not learn of it."""
        options = {"drafters": "none"} if plain else {}
        result = self._llm.generate(ids, max_tokens=max_tokens, temperature=0.0, **options)
        return self._answered(result, result.stats.generation_ms / 1e3)

    def begin_answer(self, ids: list[int], max_tokens: int) -> dict[str, Any]:
        """The prompt and the first token of an answer that `go_on` continues."""
        self._stream = self._llm.stream(ids, max_tokens=max_tokens, temperature=0.0)
        self._pause = self._waited = 0.0
        return self._pull(1)

    def go_on(self, n: int) -> dict[str, Any]:
        """About n tokens more, in whole rounds. When the answer has ended, what `answer` returns, without the time between
        the pieces; else {}.
        """
        self._pause = perf_counter() - self._paused_at
        return self._pull(n)

    def _pull(self, n: int) -> dict[str, Any]:
        for chunk in self._stream:
            n -= len(chunk.tokens)
            if chunk.tokens:  # a pause behind the last token is not in generation_ms
                self._waited, self._pause = self._waited + self._pause, 0.0
            if chunk.result is not None:
                return self._answered(chunk.result, chunk.result.stats.generation_ms / 1e3 - self._waited)
            if n <= 0:
                break
        self._paused_at = perf_counter()
        return {}

    @staticmethod
    def _answered(result: Any, seconds: float) -> dict[str, Any]:
        stats, tokens = result.stats, list(result.tokens)
        if isinstance(result.stopped_by, int):
            tokens.append(result.stopped_by)
        return {
            "tokens": tokens,
            "seconds": seconds,
            "drafted": stats.drafted,
            "accepted": stats.accepted,
            "rounds": stats.rounds,
        }

    def sampled(
        self, ids: list[int], max_tokens: int, temperature: float, seed: int, drafters: str, acceptance: str
    ) -> dict[str, int]:
        """One answer of the opened LLM, sampled by temperature alone."""
        result = self._llm.generate(
            ids,
            max_tokens=max_tokens,
            temperature=temperature,
            top_k=0,
            top_p=1.0,
            min_p=0.0,
            seed=seed,
            drafters=drafters,
            acceptance=acceptance,
        )
        stats = result.stats
        return {
            "drafted": stats.drafted,
            "accepted": stats.accepted,
            "verifications": stats.verifications,
            "emitted": len(result.tokens),
        }

    def load(self, path: str, *, threads: int, n_ctx: int, text: str, **options: Any) -> dict[str, float]:
        from pyspec import LLM

        start = perf_counter()
        with LLM(path, n_ctx=n_ctx, n_threads=threads) as llm:
            loaded = perf_counter()
            llm.generate(text, max_tokens=1, temperature=0.0)
            first = perf_counter()
            about = llm.describe()
            return {
                "import_s": self.import_s,
                "load_s": loaded - start,
                "first_token_s": first - start,
                **memory_in_use(),
                "threads": about["n_threads"],
                "n_ctx": about["n_ctx"],
            }

    def rounds(self, ids: list[int], max_tokens: int, longest: int, seed: int) -> dict[str, Any]:
        """One answer of the opened LLM under a drafter that knows it beforehand (see oracle_drafter).

        Returns microseconds by round, "wall" and "compute" (inside the backend), and the counts.
        """
        from .oracle_drafter import OracleDrafter

        key = tuple(ids)
        if key not in self._recorded:
            plain = self._llm.generate(ids, max_tokens=max_tokens, temperature=0.0, drafters="none")
            self._recorded[key] = list(plain.tokens)
        recorded = self._recorded[key]
        oracle = OracleDrafter(recorded, len(ids), self._llm.target, random.Random(seed), longest)
        result = self._llm.generate(ids, max_tokens=max_tokens, temperature=0.0, drafters=[oracle])
        return {
            "wall": oracle.wall_us,
            "compute": oracle.compute_us,
            "drafted": result.stats.drafted,
            "accepted": result.stats.accepted,
            "same_text": list(result.tokens) == recorded,
        }
