"""Calls from several threads, from other processes, half-finished and after the end: C085, C104, C105, C106,
C109.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pyspec.errors import BusyError, ClosedError, ForkError
from pyspec.llm.llm import LLM
from tests.fakes import FakeContext, FakeCore, FakeModel, looping

PROMPT = [5, 6, 7, 8, 9]


def test_a_second_call_is_refused_not_mixed_in(make_llm: Callable[..., LLM]) -> None:
    """C104 (abetlen/llama-cpp-python#1367): four threads on one LLM; every answer is the solo answer or
    BusyError.
    """
    llm = make_llm(looping())
    expected = llm.generate(PROMPT, max_tokens=30, seed=1).tokens
    context: FakeContext = llm.core.contexts[0]
    meeting = threading.Barrier(4, timeout=10)

    def hold(_: FakeContext, tokens: list[int]) -> None:
        context.on_decode = None
        meeting.wait()  # the other three have been refused by now, or are being refused

    def call(number: int) -> Any:
        try:
            if number == 0:
                return llm.generate([*PROMPT, 9], max_tokens=30, seed=1).tokens
            while context.on_decode is not None:
                pass
            try:
                return llm.generate(PROMPT, max_tokens=30, seed=1).tokens
            finally:
                meeting.wait()
        except BusyError as error:
            assert "busy with another call" in str(error)
            return "busy"

    context.on_decode = hold
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(call, range(4)))
    assert answers.count("busy") == 3
    assert llm.generate(PROMPT, max_tokens=30, seed=1).tokens == expected


def test_two_llms_in_two_threads(make_llm: Callable[..., LLM]) -> None:
    """C104, C034: sessions do not disturb each other, and neither do their random streams."""
    llms = [make_llm(looping()), make_llm(looping())]
    expected = [llm.generate(PROMPT, max_tokens=40, seed=i).tokens for i, llm in enumerate(llms)]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(10):
            futures = [pool.submit(llm.generate, PROMPT, max_tokens=40, seed=i) for i, llm in enumerate(llms)]
            assert [future.result().tokens for future in futures] == expected


def test_cancel_from_another_thread(make_llm: Callable[..., LLM]) -> None:
    """cancel ends a running answer with what it has; without a running call it does nothing, and it never
    sticks.
    """
    llm = make_llm(looping())
    llm.cancel()
    whole = llm.generate(PROMPT, max_tokens=40, temperature=0)
    assert whole.finish_reason == "length"
    context: FakeContext = llm.core.contexts[0]

    def cancel_at_8(_: FakeContext, tokens: list[int]) -> None:
        if context.n_cells >= len(PROMPT) + 8:
            thread = threading.Thread(target=llm.cancel)
            thread.start()
            thread.join()

    context.on_decode = cancel_at_8
    result = llm.generate(PROMPT, max_tokens=40, temperature=0)
    assert result.finish_reason == "cancelled"
    assert result.tokens == whole.tokens[: len(result.tokens)] and len(result.tokens) == 9
    assert result.text == llm.detokenize(result.tokens)
    assert result.usage.completion == result.stats.accepted + result.stats.chosen == 9
    chunks = list(llm.stream(PROMPT, max_tokens=40, temperature=0))
    assert chunks[-1].finish_reason == "cancelled"
    context.on_decode = None
    assert llm.generate(PROMPT, max_tokens=40, temperature=0).tokens == whole.tokens


class TestStreams:
    def test_chunks_are_the_answer(self, make_llm: Callable[..., LLM]) -> None:
        llm = make_llm(looping(), drafters="ngram-simple:n=2,m=4")
        result = llm.generate(PROMPT, max_tokens=80, temperature=0)
        stream = llm.stream(PROMPT, max_tokens=80, temperature=0)
        chunks = list(stream)
        assert "".join(chunk.text for chunk in chunks) == result.text
        assert [token for chunk in chunks for token in chunk.tokens] == result.tokens
        assert [chunk.finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
        assert chunks[-1].finish_reason == "length" and chunks[-1].result is stream.result
        assert stream.result.usage == result.usage
        assert any(len(chunk.tokens) > 1 for chunk in chunks)
        assert list(stream) == []

    def test_errors_come_when_called_not_later(self, make_llm: Callable[..., LLM]) -> None:
        with pytest.raises(ValueError, match="unknown option 'temprature'"):
            make_llm(looping()).stream(PROMPT, temprature=1)

    def test_nothing_runs_before_the_first_chunk(self, make_llm: Callable[..., LLM]) -> None:
        llm = make_llm(looping())
        stream = llm.stream(PROMPT, max_tokens=5)
        assert llm.core.contexts[0].decodes == []
        llm.generate(PROMPT, max_tokens=2)
        assert sum(len(chunk.tokens) for chunk in stream) == 5

    def test_an_open_stream_keeps_the_llm_busy(self, make_llm: Callable[..., LLM]) -> None:
        llm = make_llm(looping())
        stream = llm.stream(PROMPT, max_tokens=20)
        next(stream)
        with pytest.raises(BusyError, match="unfinished stream"):
            llm.generate(PROMPT, max_tokens=2)
        with pytest.raises(BusyError):
            next(llm.stream(PROMPT, max_tokens=2))
        stream.close()
        stream.close()
        assert list(stream) == []
        llm.generate(PROMPT, max_tokens=2)

    def test_abandoning_a_stream_frees_the_llm(self, make_llm: Callable[..., LLM]) -> None:
        llm = make_llm(looping())
        for chunk in llm.stream(PROMPT, max_tokens=20):
            if chunk.tokens:
                break
        llm.generate(PROMPT, max_tokens=2)
        with llm.stream(PROMPT, max_tokens=20) as stream:
            next(stream)
        llm.generate(PROMPT, max_tokens=2)
        stream = llm.stream(PROMPT, max_tokens=20)
        with pytest.raises(RuntimeError, match="mine"):
            for _ in stream:
                raise RuntimeError("mine")
        del stream
        gc.collect()
        llm.generate(PROMPT, max_tokens=2)

    def test_stopping_at_the_last_chunk_frees_the_llm(self, make_llm: Callable[..., LLM]) -> None:
        llm = make_llm(looping())
        stream = llm.stream(PROMPT, max_tokens=5)
        for chunk in stream:
            if chunk.finish_reason:
                break
        llm.generate(PROMPT, max_tokens=2)

    def test_async(self, make_llm: Callable[..., LLM]) -> None:
        llm = make_llm(looping())
        result = llm.generate(PROMPT, max_tokens=30, temperature=0)

        async def read() -> tuple[str, int]:
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    await asyncio.sleep(0)
                    ticks += 1

            ticker = asyncio.create_task(tick())
            text = ""
            async for chunk in llm.stream(PROMPT, max_tokens=30, temperature=0):
                text += chunk.text
            ticker.cancel()
            return text, ticks

        text, ticks = asyncio.run(read())
        assert text == result.text
        assert ticks > 5, "the event loop was blocked"

    def test_async_break_and_cancel(self, make_llm: Callable[..., LLM]) -> None:
        llm = make_llm(looping())
        context: FakeContext = llm.core.contexts[0]
        slow = threading.Event()

        async def leave_early() -> None:
            stream = llm.stream(PROMPT, max_tokens=30)
            async for _ in stream:
                break
            stream.close()
            llm.generate(PROMPT, max_tokens=2)

        async def be_cancelled() -> None:
            def wait(_: FakeContext, tokens: list[int]) -> None:
                slow.wait(0.3)

            context.on_decode = wait

            async def consume() -> None:
                async for _ in llm.stream(PROMPT, max_tokens=30):
                    pass

            task = asyncio.create_task(consume())
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            context.on_decode = None
            llm.generate(PROMPT, max_tokens=2)

        asyncio.run(leave_early())
        asyncio.run(be_cancelled())

    def test_async_errors(self, make_llm: Callable[..., LLM]) -> None:
        llm = make_llm(looping())

        def fail(_: FakeContext, tokens: list[int]) -> None:
            raise RuntimeError("in the core")

        async def read() -> None:
            async for _ in llm.stream(PROMPT, max_tokens=30):
                pass

        llm.core.contexts[0].on_decode = fail
        with pytest.raises(RuntimeError, match="in the core"):
            asyncio.run(read())
        llm.core.contexts[0].on_decode = None
        llm.generate(PROMPT, max_tokens=2)


class TestClosing:
    """C085 (abetlen/llama-cpp-python#1442)."""

    def test_everything_is_given_back_once(self) -> None:
        target, draft = looping(), FakeModel("draft.gguf", span=2)
        core = FakeCore(target, draft)
        with LLM("fake.gguf", draft="draft.gguf", _backend=core.backend) as llm:
            llm.generate(PROMPT, max_tokens=5)
        llm.close()
        assert target.closed == draft.closed == 1
        assert all(context.closed for context in core.contexts)

    @pytest.mark.parametrize(
        "use",
        [
            lambda llm: llm.generate(PROMPT),
            lambda llm: llm.stream(PROMPT),
            lambda llm: llm.chat([{"role": "user", "content": "x"}]),
            lambda llm: llm.tokenize("x"),
            lambda llm: llm.detokenize([5]),
            lambda llm: llm.memory(),
            lambda llm: llm.describe(),
            lambda llm: llm.save_state(),
            lambda llm: llm.reset(),
            lambda llm: llm.__enter__(),
        ],
    )
    def test_use_after_close_raises(self, make_llm: Callable[..., LLM], use: Callable[[LLM], Any]) -> None:
        llm = make_llm(looping())
        llm.close()
        with pytest.raises(ClosedError, match=r"LLM\('fake.gguf'\) is closed"):
            use(llm)
        assert "closed" in repr(llm)

    def test_an_unfinished_stream_does_not_hold_it_up(self, make_llm: Callable[..., LLM]) -> None:
        llm = make_llm(looping())
        stream = llm.stream(PROMPT, max_tokens=20)
        next(stream)
        llm.close()
        assert llm.core.contexts[0].closed
        with pytest.raises(ClosedError):
            next(stream)
        stream.close()

    def test_close_ends_a_running_call(self, make_llm: Callable[..., LLM]) -> None:
        llm = make_llm(looping())
        started, go_on = threading.Event(), threading.Event()

        def wait(context: FakeContext, tokens: list[int]) -> None:
            started.set()
            assert not context.closed
            go_on.wait(10)

        llm.core.contexts[0].on_decode = wait
        with ThreadPoolExecutor(2) as pool:
            running = pool.submit(llm.generate, PROMPT, max_tokens=1000)
            started.wait(10)
            closing = pool.submit(llm.close)
            go_on.set()
            closing.result(10)
            assert running.result(10).finish_reason == "cancelled"
        assert llm.core.contexts[0].closed

    def test_nothing_keeps_it_alive(self) -> None:
        """No cycles: dropping the last reference frees models and contexts at once, even with a half-used
        stream.
        """
        gc.collect()
        gc.disable()
        try:
            core = FakeCore(looping(), FakeModel("draft.gguf", span=2))
            llm = LLM("fake.gguf", draft="draft.gguf", _backend=core.backend)
            stream = llm.stream(PROMPT, max_tokens=20)
            next(stream)
            witness = weakref.ref(llm), weakref.ref(llm._session)
            del llm, stream
            assert witness[0]() is None and witness[1]() is None
        finally:
            gc.enable()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork()")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_fork(make_llm: Callable[..., LLM]) -> None:
    """In the child every call raises ForkError, close only forgets; the parent goes on."""
    llm = make_llm(looping())
    expected = llm.generate(PROMPT, max_tokens=5, temperature=0).tokens
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for use in (lambda: llm.generate(PROMPT), lambda: llm.stream(PROMPT), lambda: llm.tokenize("x")):
                try:
                    use()
                except ForkError as error:
                    assert "make a new LLM in the child" in str(error)
                else:
                    raise AssertionError("no ForkError")
            llm.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert llm.generate(PROMPT, max_tokens=5, temperature=0).tokens == expected


@pytest.mark.parametrize(
    "ending",
    ["", "sys.exit(0)", "raise SystemExit", "del llm", "gc.collect()", "for c in stream: sys.exit(0)"],
)
def test_interpreter_exit_is_quiet(ending: str) -> None:
    """C109 (abetlen/llama-cpp-python#891): an LLM, a session and a half-used stream alive at exit: code 0,
    nothing said.
    """
    script = f"""
import gc, sys
from pyspec.llm.llm import LLM
from tests.fakes import FakeCore, FakeModel, looping
core = FakeCore(looping(), FakeModel("draft.gguf", span=2))
llm = LLM("fake.gguf", draft="draft.gguf", _backend=core.backend)
stream = llm.stream([5, 6, 7], max_tokens=20)
next(stream)
other = LLM("fake.gguf", _backend=core.backend).stream([5], max_tokens=3)
next(other)
{ending}
"""
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-X", "dev", "-c", script],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
