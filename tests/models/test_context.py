"""Context: estimates, option errors, limits, cancelling, rollback kinds. Tiny models; the long cancel test uses a real one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pyspec.core.context import CancelToken, Context, Rollback, memory_estimate
from pyspec.core.model import Model
from pyspec.errors import (
    BusyError,
    CancelledError,
    ClosedError,
    ContextFullError,
    FileFormatError,
    ForkError,
    OptionError,
    OutOfMemoryError,
    PyspecError,
    UnsupportedError,
)
from tests.conftest import TinyFiles

from .support import random_tokens


@pytest.fixture(scope="module")
def model(tiny: TinyFiles) -> Model:
    return Model(tiny.path("llama"))


def test_estimate_is_the_same_with_and_without_weights(tiny: TinyFiles) -> None:
    """C086 (ggml-org/llama.cpp#23472, #25408, ollama/ollama#17951): the plan needs no weights and does not count them
    as compute buffers."""
    path = tiny.path("llama")
    with Model(path) as full, Model(path, metadata_only=True) as plan:
        a = memory_estimate(full, n_ctx=2048)
        b = memory_estimate(plan, n_ctx=2048)
    assert (a.weight_bytes, a.cache_bytes, a.compute_bytes, a.output_bytes) == (
        b.weight_bytes,
        b.cache_bytes,
        b.compute_bytes,
        b.output_bytes,
    )
    assert a.context_bytes == a.cache_bytes + a.compute_bytes + a.output_bytes
    assert a.available_bytes > 0


@pytest.mark.real
def test_estimate_is_what_gets_used(real_model: Callable[[str], Path]) -> None:
    """C086: resident growth within 10 % of the estimate once every cell was written. In a process of its own: memory that
    earlier tests have freed may still be resident and would be used again."""
    result = subprocess.run(
        [sys.executable, "-c", _GROWTH, str(real_model("smollm2"))],
        capture_output=True,
        text=True,
        check=True,
    )
    grown, context, weights, sure = map(int, result.stdout.split())
    # The cache and the output rows are touched as a whole; compute buffers only where they are used, hence no lower bound
    # on their part. Graph structures and the allocator's pages are the small rest.
    assert grown <= 1.10 * (context + weights)
    assert grown >= 0.90 * sure


_GROWTH = """
import os, sys
from pathlib import Path
from pyspec.core.context import Context, memory_estimate
from pyspec.core.model import Model

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

model = Model(sys.argv[1])
estimate = memory_estimate(model, n_ctx=2048, n_outputs=64)
before = resident()
context = Context(model, n_ctx=2048, n_outputs=64)
tokens = [i * 7919 % context.n_vocab for i in range(2048)]
context.decode(tokens[:1984])
context.decode(tokens[1984:], outputs="all")
grown = resident() - before
print(grown, estimate.context_bytes, estimate.weight_bytes, estimate.cache_bytes + estimate.output_bytes)
"""


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"n_ctx": -1}, "n_ctx is -1"),
        ({"n_batch": 0}, "n_batch is 0"),
        ({"n_ubatch": 0}, "n_ubatch is 0"),
        ({"n_outputs": 0}, "n_outputs is 0"),
        ({"n_threads": -3}, "n_threads is -3, expected 0 to 512"),
        ({"n_threads": 100000}, "n_threads is 100000"),
        ({"n_ctx": 2**40}, "n_ctx"),
        ({"type_k": "q4_0"}, "type_k is 'q4_0'"),
        ({"memory_kind": "odd"}, "memory_kind is 'odd'"),
    ],
)
def test_wrong_options(model: Model, options: dict[str, object], part: str) -> None:
    with pytest.raises(OptionError, match=part.replace("(", r"\(")):
        Context(model, **options)  # type: ignore[arg-type]


def test_too_large_is_refused_with_numbers(tiny: TinyFiles) -> None:
    """Out of memory is an error with the numbers, before anything is allocated."""
    with (
        Model(tiny.path("gemma3", dtype="q4_k")) as m,
        pytest.raises(OutOfMemoryError, match=r"needs \d+ MB .* are available"),
    ):
        Context(m, n_ctx=1 << 24, n_outputs=1 << 20, n_batch=1 << 20, type_k="f32", type_v="f32")


def test_q8_cache_needs_fitting_heads(tiny: TinyFiles) -> None:
    with Model(tiny.path("llama")) as m:
        Context(m, type_k="q8_0", type_v="q8_0", n_ctx=256).close()


def test_metadata_only_cannot_compute(tiny: TinyFiles) -> None:
    with (
        Model(tiny.path("llama"), metadata_only=True) as m,
        pytest.raises(UnsupportedError, match="metadata_only"),
    ):
        Context(m)


def test_other_devices_are_refused_with_the_reason(tiny: TinyFiles) -> None:
    with pytest.raises(UnsupportedError, match=r"device 'cuda' is not available: .* CPU"):
        Model(tiny.path("llama"), device="cuda")


def test_full_context_changes_nothing(model: Model) -> None:
    """n_ctx is the limit, not its rounding to whole blocks; the refused batch leaves everything as it was."""
    with Context(model, n_ctx=100, n_threads=1) as ctx:
        tokens = random_tokens(ctx.n_vocab, 101)
        with pytest.raises(ContextFullError, match="101 tokens do not fit: 0 of 100"):
            ctx.decode(tokens)
        ctx.decode(tokens[:100])
        before = ctx.state_save()
        with pytest.raises(ContextFullError, match="1 tokens do not fit: 100 of 100"):
            ctx.decode(tokens[:1])
        assert ctx.n_cells == 100 and ctx.state_save() == before
        assert ctx.n_outputs == 0  # rows are gone after every call


@pytest.mark.parametrize("token", [-1, 10**6])
def test_wrong_tokens(model: Model, token: int) -> None:
    with Context(model, n_ctx=256, n_threads=1) as ctx:
        ctx.decode([1, 2, 3])
        with pytest.raises(OptionError, match="token 1 of the batch"):
            ctx.decode([1, token])
        assert ctx.n_cells == 3


def test_wrong_batches(model: Model) -> None:
    with Context(model, n_ctx=256, n_batch=16, n_outputs=4, n_threads=1) as ctx:
        with pytest.raises(OptionError, match="n_tokens is 17, expected 1 to 16"):
            ctx.decode([1] * 17)
        with pytest.raises(OptionError, match="n_tokens is 0"):
            ctx.decode([])
        with pytest.raises(OptionError, match=r"5 output rows .* n_outputs 4"):
            ctx.decode([1] * 5, outputs="all")
        with pytest.raises(OptionError, match="flags"):
            ctx.decode([1, 2], outputs=[True])
        with pytest.raises(OptionError, match="expected None"):
            ctx.decode([1], outputs="some")
        with pytest.raises(OptionError, match="positions"):
            ctx.decode([1, 2], positions=[3])
        with pytest.raises(OptionError, match="integers"):
            ctx.decode([2**40])
        ctx.decode([1, 2, 3], positions=[0, 5, 9])
        assert (ctx.seq_pos_min(), ctx.seq_pos_max(), ctx.n_cells) == (0, 9, 3)
        with pytest.raises(OptionError, match="positions must grow"):
            ctx.decode([4], positions=[9])
        with pytest.raises(OptionError, match="no output row 1"):
            ctx.logits(1)
        with pytest.raises(OptionError, match="no rows of tap 0"):
            ctx.taps(0)


def test_taps_are_checked(model: Model) -> None:
    with Context(model, n_ctx=256, n_threads=1) as ctx:
        with pytest.raises(OptionError, match="tap layer"):
            ctx.set_taps([model.info.n_layer + 1])
        with pytest.raises(OptionError, match="given twice"):
            ctx.set_taps([0, 0])


def test_seq_rm_arguments(model: Model) -> None:
    """llama.cpp's meaning: open ends, 0 or -1 as sequence, empty ranges fine."""
    with Context(model, n_ctx=256, n_threads=1) as ctx:
        ctx.decode(list(range(10)))
        assert ctx.seq_rm(0, 5, 5) and ctx.n_cells == 10
        assert ctx.seq_rm(0, 20, 30) and ctx.n_cells == 10
        assert ctx.seq_rm(0, 3, 5) and ctx.n_cells == 8
        assert (ctx.seq_pos_min(), ctx.seq_pos_max()) == (0, 9)
        assert ctx.seq_rm(-1, 8, -1) and ctx.seq_pos_max() == 7
        assert ctx.seq_rm(0, -1, 2) and ctx.seq_pos_min() == 2
        with pytest.raises(OptionError, match="seq_id is 1"):
            ctx.seq_rm(1, 0, -1)
        assert ctx.seq_rm(-1, -1, -1)
        assert (ctx.seq_pos_min(), ctx.seq_pos_max(), ctx.n_cells) == (-1, -1, 0)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("auto", Rollback.PART), ("test-full", Rollback.FULL), ("test-no", Rollback.NO)],
)
def test_probe(model: Model, kind: str, expected: Rollback) -> None:
    with Context(model, n_ctx=256, n_threads=1, memory_kind=kind) as ctx:
        assert ctx.probe_rollback() is expected
        assert ctx.n_cells == 0
        ctx.decode([1, 2, 3])
        state = ctx.state_save()
        for p0, p1 in ((2, -1), (0, -1), (1, 2)):
            allowed = ctx.can_seq_rm(0, p0, p1)
            assert ctx.seq_rm(0, p0, p1) is allowed  # the answer and the action agree
            if not allowed:
                assert ctx.state_save() == state  # refused before anything changed
            ctx.state_restore(state)


def test_states_that_do_not_fit(tiny: TinyFiles, model: Model) -> None:
    with Context(model, n_ctx=256, n_threads=1) as ctx:
        ctx.decode([1, 2, 3])
        state = ctx.state_save()
        with (
            Context(model, n_ctx=256, n_threads=1, type_k="f32") as other,
            pytest.raises(OptionError, match="cache types"),
        ):
            other.state_restore(state)
        with (
            Model(tiny.path("qwen2")) as m,
            Context(m, n_ctx=256) as other,
            pytest.raises(OptionError, match="model file"),
        ):
            other.state_restore(state)
        with (
            Context(model, n_ctx=2, n_threads=1) as small,
            pytest.raises(OptionError, match="more than n_ctx 2"),
        ):
            small.state_restore(state)
        for broken in (b"", state[:10], state[:-1], state + b"x", b"y" + state[1:]):
            with pytest.raises(FileFormatError):
                ctx.state_restore(broken)
        assert ctx.state_save() == state


def test_graphs_are_reused(model: Model) -> None:
    with Context(model, n_ctx=512, n_threads=1) as ctx:
        ctx.decode([1] * 8)
        built = ctx.stats().n_graph_build
        for _ in range(20):
            ctx.decode([1])
            ctx.decode([1, 2, 3], outputs="all")
        stats = ctx.stats()
        assert stats.n_graph_build == built + 2
        assert stats.n_graph_reuse == 38
        assert stats.n_tokens == 8 + 20 * 4


def test_cancelled_before_it_starts(model: Model) -> None:
    cancel = CancelToken()
    cancel.cancel()
    with Context(model, n_ctx=256, n_threads=1) as ctx:
        with pytest.raises(CancelledError):
            ctx.decode([1, 2, 3], cancel=cancel)
        assert ctx.n_cells == 0
        ctx.decode([1, 2, 3])  # a cancel belongs to its token and does not stick


@pytest.mark.real
@pytest.mark.long
def test_cancel_in_a_long_prompt(real_model: Callable[[str], Path]) -> None:
    """C105 (ikawrakow/ik_llama.cpp#1787): cancelled at many points of a 4,000-token prompt, it returns within 0.25 s, its
    cells are gone, and the next decode is that of a fresh context."""
    with Model(real_model("smollm2")) as real, Context(real, n_ctx=4352, n_batch=4096) as ctx:
        tokens = random_tokens(ctx.n_vocab, 4000)
        ctx.decode(tokens[:50])
        fresh = np.array(ctx.logits(0))
        random = np.random.default_rng(3)
        for _ in range(10):
            ctx.seq_rm(0, -1, -1)
            ctx.decode(tokens[:20])
            cancel = CancelToken()
            asked = [0.0]

            def stop(cancel: CancelToken = cancel, asked: list[float] = asked) -> None:
                asked[0] = time.perf_counter()
                cancel.cancel()

            timer = threading.Timer(float(random.uniform(0.05, 2.0)), stop)
            timer.start()
            with pytest.raises(CancelledError):
                ctx.decode(tokens, cancel=cancel)
            assert time.perf_counter() - asked[0] < 1.0  # 0.25 s on a quiet machine; only hangs fail here
            assert ctx.n_cells == 20
            ctx.decode(tokens[20:50])
            assert np.array(ctx.logits(0)).tobytes() == fresh.tobytes()


def test_two_threads_in_one_context(tiny: TinyFiles) -> None:
    """C104 (abetlen/llama-cpp-python#1367): the second thread gets BusyError, the first one its result."""
    with Model(tiny.path("llama")) as m, Context(m, n_ctx=1024, n_threads=1) as ctx:
        tokens = random_tokens(ctx.n_vocab, 1000)
        outcomes: list[PyspecError | None] = []

        def work() -> None:
            try:
                ctx.decode(tokens)
                outcomes.append(None)
            except PyspecError as error:
                outcomes.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes.count(None) == 1
        assert all(isinstance(o, (BusyError, ContextFullError)) for o in outcomes if o is not None)
        assert ctx.n_cells == 1000


def test_closed(tiny: TinyFiles) -> None:
    m = Model(tiny.path("llama"))
    ctx = Context(m, n_ctx=256, n_threads=1)
    m.close()
    ctx.decode([1, 2, 3])  # a context keeps the weights alive
    with pytest.raises(ClosedError):
        Context(m)
    ctx.close()
    ctx.close()
    with pytest.raises(ClosedError):
        ctx.decode([1])


def test_fork(tiny: TinyFiles) -> None:
    """In a forked child every use is refused and nothing hangs, closing included."""
    m = Model(tiny.path("llama"))
    ctx = Context(m, n_ctx=256, n_threads=2)
    ctx.decode([1, 2, 3])
    child = os.fork()
    if child == 0:
        code = 1
        try:
            ctx.decode([1])
        except ForkError:
            try:
                Context(m)
            except ForkError:
                ctx.close()
                code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ctx.decode([4])  # the parent is untouched
    ctx.close()
    m.close()
