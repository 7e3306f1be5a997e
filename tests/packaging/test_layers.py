"""The rooms of the project and who may use whom (CONTRIBUTING.md, "Shape")."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .conftest import REPOSITORY

CSRC = REPOSITORY / "csrc"
PYSPEC = REPOSITORY / "pyspec"

#: Room of csrc: the rooms it may include from. `include` is the C header: its enums are everybody's.
CORE_ROOMS = {
    "support": {"include"},
    "kernels": {"support", "include"},
    "weights": {"kernels", "support", "include"},
    "memory": {"kernels", "support", "include"},
    "graph": {"memory", "weights", "kernels", "support", "include"},
    "families": {"graph", "memory", "weights", "kernels", "support", "include"},
    "runtime": {"families", "graph", "memory", "weights", "kernels", "support", "include"},
    "sampling": {"support", "include"},
    "history": {"support", "include"},
}
CORE_ROOMS["api"] = {*CORE_ROOMS, "generated", "include"}
CORE_ROOMS["include"] = set()

#: Package of pyspec, lowest first: each may import from those before it. `fetch` stands beside the core.
PYTHON_ROOMS = [
    "errors",
    "_version",
    "_user_cache",
    "_native",
    "core",
    "drafters",
    "speculation",
    "llm",
    "cli",
]
BESIDE = {"fetch": {"errors", "_version", "_user_cache"}}

#: Products and attention, ggml's and our own; only these files may call them (and csrc/kernels, which defines some).
PRODUCTS = re.compile(
    r"\b(ggml_(?:mul_mat\w*|flash_attn\w*|out_prod\w*)|product_node|rows_node|expert_product_node|attention_node)\s*\("
)
PRODUCT_FILES = {"graph/linear.cpp", "graph/experts.cpp", "graph/attention.cpp"}


def core_sources() -> list[Path]:
    return sorted(path for path in CSRC.rglob("*") if path.suffix in {".h", ".cpp", ".c", ".inc"})


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)


def core_violations(name: str, text: str) -> list[str]:
    """Includes of another room that `name` ("room/file") may not use."""
    room = name.split("/")[0]
    bad = []
    for included in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, flags=re.MULTILINE):
        target = included.split("/")[0] if "/" in included else room
        if included.startswith(("ggml", "gguf")):
            continue
        if target != room and target not in CORE_ROOMS[room]:
            bad.append(f"{name} includes {included}")
    return bad


def imports(tree: ast.AST) -> Iterator[str]:
    """Names of modules of pyspec that a module imports, functions' own imports included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "pyspec")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports inside pyspec are absolute"
            if node.module and node.module.split(".")[0] == "pyspec":
                if node.module == "pyspec":
                    yield from (f"pyspec.{alias.name}" for alias in node.names)
                else:
                    yield node.module


def python_violations(room: str, source: str) -> list[str]:
    """Imports of pyspec that a module of `room` may not make."""
    if room in BESIDE:
        allowed = BESIDE[room] | {room}
    else:
        allowed = set(PYTHON_ROOMS[: PYTHON_ROOMS.index(room) + 1])
        if room in {"llm", "cli"}:
            allowed |= set(BESIDE)
    bad = []
    for name in imports(ast.parse(source)):
        parts = name.split(".")
        if len(parts) == 1 or parts[1] not in allowed:
            bad.append(f"{room} imports {name}")
    return bad


def test_core_includes_follow_the_layers(count_cases: Callable[[int], None]) -> None:
    sources = core_sources()
    assert sources
    bad = []
    for path in sources:
        bad += core_violations(path.relative_to(CSRC).as_posix(), path.read_text(encoding="utf-8"))
    count_cases(len(sources))
    assert not bad, "\n".join(bad)


def test_only_the_seam_calls_products() -> None:
    bad = []
    for path in core_sources():
        name = path.relative_to(CSRC).as_posix()
        if name in PRODUCT_FILES or name.startswith("kernels/"):
            continue
        if PRODUCTS.search(without_comments(path.read_text(encoding="utf-8"))):
            bad.append(name)
    assert not bad, f"only {sorted(PRODUCT_FILES)} may call products and attention: {bad}"
    seam = "".join((CSRC / name).read_text(encoding="utf-8") for name in PRODUCT_FILES)
    assert {"product_node", "rows_node", "expert_product_node", "attention_node"} <= set(
        PRODUCTS.findall(seam)
    )


def test_systems_are_known_to_support_only() -> None:
    """Nothing Linux-only outside csrc/support."""
    system = re.compile(
        r"#\s*include\s+<(sys/\w+|unistd|fcntl|sched|pthread|linux/\w+|dlfcn|immintrin|x86intrin)\.h>"
    )
    bad = []
    for path in core_sources():
        room = path.relative_to(CSRC).parts[0]
        allowed = {"support", "kernels"}  # kernels have vector code, behind their own dispatch
        if room not in allowed and system.search(path.read_text(encoding="utf-8")):
            bad.append(path.name)
    assert not bad


def test_python_imports_follow_the_layers(count_cases: Callable[[int], None]) -> None:
    bad = []
    modules = sorted(path for path in PYSPEC.rglob("*.py") if path != PYSPEC / "__init__.py")
    assert modules
    for path in modules:
        room = path.relative_to(PYSPEC).parts[0].removesuffix(".py")
        bad += [
            f"{path.relative_to(REPOSITORY)}: {b}"
            for b in python_violations(room, path.read_text(encoding="utf-8"))
        ]
    count_cases(len(modules))
    assert not bad, "\n".join(bad)


def test_only_the_binding_knows_c() -> None:
    """ctypes and cffi appear in pyspec/_native only."""
    bad = []
    for path in PYSPEC.rglob("*.py"):
        if "_native" not in path.parts and re.search(
            r"^\s*(import|from) (ctypes|cffi|_cffi_backend)\b", path.read_text(), re.M
        ):
            bad.append(path.name)
    assert not bad


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("families/llama.cpp", '#include "runtime/context.h"\n', 1),
        (
            "families/llama.cpp",
            '#include "graph/linear.h"\n#include "families/family.h"\n#include "local.h"\n',
            0,
        ),
        ("sampling/chain.cpp", '#include "kernels/top_k.h"\n', 1),
        ("memory/kv.cpp", '#include "weights/model_file.h"\n#include "ggml.h"\n', 1),
        ("support/log.cpp", '#include "api/handles.h"\n', 1),
        ("api/model.cpp", '#include "sampling/x.h"\n#include "weights/y.h"\n', 0),
    ],
)
def test_core_rule_can_fail(name: str, text: str, count: int) -> None:
    assert len(core_violations(name, text)) == count


@pytest.mark.parametrize(
    ("room", "text", "count"),
    [
        ("core", "from pyspec.llm import LLM", 1),
        ("core", "def f():\n    import pyspec.drafters.base", 1),
        ("core", "from pyspec import _native, errors", 0),
        ("drafters", "from pyspec.speculation.round import Round", 1),
        ("speculation", "from pyspec.drafters.base import Draft", 0),
        ("fetch", "from pyspec.core.model import Model", 1),
        ("cli", "from pyspec.fetch import resolve_model\nfrom pyspec.llm.llm import LLM", 0),
        ("llm", "import pyspec", 1),
    ],
)
def test_python_rule_can_fail(room: str, text: str, count: int) -> None:
    assert len(python_violations(room, text)) == count


def test_product_rule_can_fail() -> None:
    assert PRODUCTS.search("cur = ggml_mul_mat(ctx, w, x);")
    assert PRODUCTS.search("ggml_flash_attn_ext (ctx, q, k, v)")
    assert PRODUCTS.search("return product_node(g.ctx, plan, w, x, nullptr, scratch);")
    assert not PRODUCTS.search("ggml_mul(ctx, a, b)")


def test_files_hold_one_concept() -> None:
    """No source file above 500 lines; that is where files stop being about one thing."""
    long = []
    for path in [*core_sources(), *PYSPEC.rglob("*.py"), *(REPOSITORY / "tools").rglob("*.py")]:
        lines = path.read_text(encoding="utf-8").count("\n")
        if lines > 500:
            long.append(f"{path.relative_to(REPOSITORY)}: {lines}")
    assert not long, "\n".join(long)
