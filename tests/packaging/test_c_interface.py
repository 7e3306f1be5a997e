"""The C programs of tests/capi: strict C11 over the header alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pyspec._native import lib
from tests.capi.make_layout import enumerators, structs

from .conftest import REPOSITORY, Run


def test_struct_layouts_agree_with_cffi(build_dir: Path, interface: str, run: Run) -> None:
    """Size, alignment, offsets and enumerators of every struct of the headers, as C and as cffi see them."""
    ffi, library = lib()
    from_c = run([build_dir / "tests" / "capi" / "layout"]).stdout.splitlines()
    from_cffi = []
    for name in structs(interface):
        struct = ffi.typeof(name)
        from_cffi.append(f"struct {name} {ffi.sizeof(struct)} {ffi.alignof(struct)}")
        for field, info in struct.fields:
            from_cffi.append(f"field {name} {field} {info.offset} {ffi.sizeof(info.type)}")
    from_cffi += [f"enum {name} {getattr(library, name)}" for name in enumerators(interface)]
    assert from_c == from_cffi


def test_one_header_includes_all(headers: list[Path]) -> None:
    """Who includes pyspec.h has the whole interface."""
    (whole,) = [header for header in headers if header.name == "pyspec.h"]
    parts = {header.name for header in headers} - {whole.name}
    assert set(re.findall(r'^#include "(.+)"$', whole.read_text(), flags=re.MULTILINE)) == parts


def test_no_struct_is_forgotten(interface: str) -> None:
    """The two readers of the headers, cffi's and the layout program's, see the same structs as a plain count."""
    ffi, _ = lib()
    with_fields = set(re.findall(r"struct\s+(\w+)\s*\{", interface))
    assert set(structs(interface)) == with_fields
    assert len(with_fields) >= 8
    typedefs, tags, _ = ffi.list_types()
    assert with_fields <= {*typedefs, *tags}


def test_constants(interface: str) -> None:
    """#define constants reach Python with the headers' value."""
    _, library = lib()
    constants = re.findall(r"^#define (PYSPEC_\w+) \((-?\d+)\)$", interface, flags=re.MULTILINE)
    assert constants
    for name, value in constants:
        assert getattr(library, name) == int(value)


def test_c_program_generates(build_dir: Path, run: Run, tiny: Any) -> None:
    """A C program over the header feeds token ids; Python's Context gives the same tokens and pieces."""
    from pyspec.core.context import Context
    from pyspec.core.model import Model

    path = tiny.path("llama")
    prompt = [1, 5, 9, 13]
    output = run([build_dir / "tests" / "capi" / "generate", path, "12", *map(str, prompt)]).stdout

    tokens: list[int] = []
    pieces = b""
    with Model(path) as model, Context(model, n_ctx=512, n_threads=1) as context:
        batch = prompt
        while len(tokens) < 12:
            context.decode(batch)
            token = int(context.logits(0).argmax())
            tokens.append(token)
            if model.is_eog(token):
                break
            pieces += model.token_piece(token)
            batch = [token]
    ids = " ".join(map(str, tokens)) + " \n"
    assert ids in output
    assert pieces.decode("utf-8", "replace") in output


@pytest.mark.parametrize("n_threads", [1, 2])
def test_two_contexts_at_the_same_time(build_dir: Path, run: Run, tiny: Any, n_threads: int) -> None:
    """Two C threads decode on one model; both choose the tokens that one context alone chooses."""
    from pyspec.core.context import Context
    from pyspec.core.model import Model

    path = tiny.path("llama", dtype="q8_0")
    output = run([build_dir / "tests" / "capi" / "parallel", path, str(n_threads), "8"]).stdout
    tokens: list[int] = []
    with Model(path) as model, Context(model, n_ctx=512, n_threads=1) as context:
        batch = [(i * 7 + 3) % context.n_vocab for i in range(40)]
        while len(tokens) < 8:
            context.decode(batch)
            batch = [int(context.logits(0).argmax())]
            tokens += batch
    assert list(map(int, output.split())) == tokens


def test_c_program_reports_errors(build_dir: Path, run: Run, tmp_path: Path) -> None:
    result = run([build_dir / "tests" / "capi" / "generate", tmp_path / "none.gguf", "4", "1"], ok=False)
    assert result.returncode == 1
    assert "none.gguf" in result.stdout


@pytest.mark.parametrize("header", [path.name for path in sorted((REPOSITORY / "csrc/include").glob("*.h"))])
@pytest.mark.parametrize("language", ["c", "c++"])
def test_header_compiles_alone(
    language: str, header: str, repository: Path, run: Run, tmp_path: Path
) -> None:
    source = tmp_path / "use.c"
    source.write_text(
        f'#include "{header}"\n#include "{header}"\nint main(void) {{ return (int)PYSPEC_OK; }}\n'
    )
    standard = "-std=c11" if language == "c" else "-std=c++17"
    include = repository / "csrc/include"
    run(
        [
            "cc",
            "-x",
            language,
            standard,
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-fsyntax-only",
            "-I",
            include,
            source,
        ]
    )


def test_ignored_status_is_a_warning(repository: Path, run: Run, tmp_path: Path) -> None:
    """Status codes are must-use."""
    source = tmp_path / "ignore.c"
    source.write_text('#include "pyspec.h"\nvoid f(pyspec_job ** j) { pyspec_job_new(j); }\n')
    command = [
        "cc",
        "-std=c11",
        "-Werror",
        "-c",
        "-o",
        tmp_path / "ignore.o",
        "-I",
        repository / "csrc/include",
        source,
    ]
    result = run(command, ok=False)
    assert result.returncode != 0
    assert "unused" in result.stdout or "ignoring return value" in result.stdout
