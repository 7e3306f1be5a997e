"""Which kernels a model runs on: packed where it can be, every set gives rows that do not depend on their number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyspec.core.context import Context
from pyspec.core.model import Model
from pyspec.errors import OptionError, UnsupportedError
from tests.conftest import TinyFiles

from .support import prompt, relative_error

FLOATS = ["f16", "bf16", "f32"]
PACKABLE = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k", *FLOATS]
SETS = ["avx512_vnni", "avx2_vnni", "avx2", "portable"]


def processor_runs(kernels: str) -> bool:
    """What the system says of this processor, asked without the library."""
    flags = set(Path("/proc/cpuinfo").read_text().split())
    needs = {"avx512_vnni": "avx512_vnni", "avx2_vnni": "avx_vnni", "avx2": "avx2"}
    return kernels == "portable" or needs[kernels] in flags


def rows(model: Model, tokens: tuple[int, ...], chunk: int) -> Any:
    with Context(model, n_ctx=256, n_threads=1, n_outputs=64) as context:
        found = []
        for first in range(0, len(tokens), chunk):
            n = context.decode(tokens[first : first + chunk], outputs="all")
            found += [np.array(context.logits(i)) for i in range(n)]
        return np.stack(found)


@pytest.mark.parametrize("dtype", PACKABLE)
def test_packable_types_are_packed(tiny: TinyFiles, dtype: str) -> None:
    path = tiny.path("llama", dtype=dtype)
    with (
        Model(path) as model,
        Model(path, pack_weights=False) as plain,
        Model(path, metadata_only=True) as plan,
    ):
        matrices = sum(
            tensor["bytes"]
            for tensor in model.tensors
            if tensor["type"].lower() == dtype
            and len(tensor["shape"]) == 2
            and tensor["name"] != "token_embd.weight"
        )
        assert matrices > 0
        # the token table is only looked up, unless it is tied; norms are not matrices
        assert matrices <= model.info.packed_bytes <= 1.1 * matrices
        assert model.info.kernels in SETS
        assert plain.info.packed_bytes == plan.info.packed_bytes == 0


def test_other_types_stay(tiny: TinyFiles) -> None:
    with Model(tiny.path("llama", dtype="iq4_nl")) as model:
        assert model.info.packed_bytes == 0


@pytest.mark.parametrize("kernels", SETS)
@pytest.mark.parametrize(
    ("family", "dtype"),
    [
        ("llama", "q4_k"),
        ("qwen2", "q8_0"),
        ("gemma3", "q5_1"),
        ("gemma3", "f16"),
        ("llama", "bf16"),
        ("phi3", "f32"),
    ],
)
def test_every_set_is_exact(
    tiny: TinyFiles, family: str, dtype: str, kernels: str, count_cases: Callable[[int], None]
) -> None:
    path, tokens = tiny.path(family, dtype=dtype), prompt(family, 40)
    if not processor_runs(kernels):
        with pytest.raises(UnsupportedError, match=rf"cannot run the kernels '{kernels}'; use auto"):
            Model(path, kernels=kernels)
        return
    with Model(path, kernels=kernels) as model, Model(path) as best:
        assert model.info.kernels == kernels
        whole = rows(model, tokens, 40)
        for chunk in (1, 3, 7, 17):
            assert np.array_equal(rows(model, tokens, chunk), whole)
        assert relative_error(whole, rows(best, tokens, 40)) <= (0.001 if dtype in FLOATS else 0.03)
    count_cases(4 * len(tokens))


@pytest.mark.parametrize("family", ["llama", "llama_moe"])
def test_unpacked_weights_are_exact_too(tiny: TinyFiles, family: str) -> None:
    path, tokens = tiny.path(family, dtype="q8_0"), prompt(family, 40, 0.1)
    with Model(path, pack_weights=False) as plain, Model(path) as packed:
        whole = rows(plain, tokens, 40)
        assert np.array_equal(rows(plain, tokens, 1), whole)
        assert relative_error(whole, rows(packed, tokens, 40)) <= 0.1


def test_unknown_sets_are_refused(tiny: TinyFiles) -> None:
    with pytest.raises(
        OptionError, match=r"kernels 'mmx' are unknown; choose from auto, avx512_vnni, .*portable"
    ):
        Model(tiny.path("llama"), kernels="mmx")


def runs_after_a_decode(path: Path, **options: bool) -> tuple[dict[str, int], int]:
    """Kernel runs of one decode, and the number of layers."""
    with Model(path, **options) as model, Context(model, n_ctx=256, n_threads=2) as context:
        assert context.kernel_runs() == {}
        context.decode(list(range(5, 25)))
        return context.kernel_runs(), int(model.metadata[f"{model.info.architecture}.block_count"])


def test_kernel_runs_are_counted(tiny: TinyFiles) -> None:
    """The fast kernels computed every product: what is not counted as such was not computed by them."""
    runs, n_layer = runs_after_a_decode(tiny.path("llama", dtype="q8_0"))
    assert runs == {"product.q8_0": 7 * n_layer + 1, "attention": n_layer}

    runs, n_layer = runs_after_a_decode(tiny.path("llama", dtype="q8_0"), pack_weights=False)
    assert runs == {"product_unpacked.q8_0": 7 * n_layer + 1, "attention": n_layer}

    runs, n_layer = runs_after_a_decode(tiny.path("llama", dtype="iq4_nl"))
    assert runs == {"product_unpacked.iq4_nl": 7 * n_layer + 1, "attention": n_layer}

    runs, n_layer = runs_after_a_decode(tiny.path("llama_moe", dtype="q8_0"))
    assert runs == {
        "product.q8_0": 4 * n_layer + 1,
        "product.f32": n_layer,
        "experts.q8_0": 3 * n_layer,
        "attention": n_layer,
    }
