"""A streamed answer, for `for` and for `async for`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any

from pyspec.llm.results import Chunk, GenerationResult


class Stream:
    """Iterator over Chunks. Nothing runs before the first one is asked for.

    While it is unfinished the LLM is busy. Dropping it, `close`, or leaving a `with` block ends the
    generation; what was computed so far stays in the session's memory. The texts of all chunks put together
    are the text of `result`. check() raises when the LLM can no longer be used.
    """

    def __init__(
        self, chunks: Iterator[Chunk], cancel: Callable[[], None], check: Callable[[], None]
    ) -> None:
        self._chunks = chunks
        self._cancel = cancel
        self._check = check
        #: The whole answer once the stream has ended, else None.
        self.result: GenerationResult | None = None

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Chunk:
        self._check()
        chunk = next(self._chunks)
        if chunk.result is not None:
            self.result = chunk.result
        return chunk

    def close(self) -> None:
        """End the generation. May be called at any time and more than once, by the thread that iterates."""
        self._chunks.close()  # type: ignore[attr-defined]

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        """The same chunks without blocking the event loop: each is computed in the loop's default
        executor.
        """
        import asyncio

        loop = asyncio.get_running_loop()
        done: Any = object()
        try:
            while True:
                work = loop.run_in_executor(None, next, self, done)
                try:
                    chunk = await asyncio.shield(work)
                except asyncio.CancelledError:
                    # The task is cancelled, the thread is not: stop it and wait, so that the LLM is free
                    # afterwards.
                    self._cancel()
                    await asyncio.wait([work])
                    if not work.cancelled():
                        work.exception()
                    raise
                if chunk is done:
                    return
                yield chunk
        finally:
            self.close()
