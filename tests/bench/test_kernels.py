"""`python -m tools.bench kernels` on a program that prints fixed lines, and the real program on the smallest matrices."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tools.bench.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("PYSPEC_BUILD_DIR", ROOT / "build" / "dev")) / "bench" / "kernels"

FAKE = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/asked"
case $1 in
types) echo '{"types": ["Q4_K", "Q8_0"]}' ;;
roofline) echo '{"kernels": "avx2", "threads": 3, "read_gb_s": {"best": 10}, "dot_gmac_s": {"best": 100}}' ;;
product) for n in 1 16; do
    echo '{"type": "'$3'", "in": 1000, "out": 2000, "columns": '$n', "cold": true, "ratio": 2,'
    echo ' "ours": {"ns": 400000, "bytes": 1000000, "gb_s": 2.5, "gmac_s": 5},'
    echo ' "ggml": {"ns": 800000, "bytes": 990000, "gb_s": 1.25, "gmac_s": 123456}}'
done | paste -d '' - - - ;;
esac
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build folder with a program that prints fixed numbers and notes its arguments in bench/asked."""
    program = tmp_path / "bench" / "kernels"
    program.parent.mkdir()
    program.write_text(FAKE)
    program.chmod(0o755)
    monkeypatch.setenv("PYSPEC_BUILD_DIR", str(tmp_path))
    return tmp_path


def test_numbers_reach_table_and_json(fake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = fake / "result.json"
    options = ["--types", "q8_0,Q4_K", "--shapes", "small", "--columns", "1,16", "--threads", "3"]
    assert main(["kernels", *options, "--repeat", "7", "--json", str(file)]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) < 80
    rows = [line.split() for line in text.splitlines() if line.startswith("Q")]
    # 1e6 bytes take 0.1 ms at 10 GB/s; 16 * 2e6 products take 0.32 ms at 100 GMAC/s
    first = ["Q8_0", "1000x2000", "1", "400.0", "2.500", "5.000", "25", "%", "123456", "2.000"]
    assert rows[0] == first
    assert rows[1][6] == "80"
    assert [row[0] for row in rows] == ["Q8_0", "Q8_0", "Q4_K", "Q4_K"]
    assert "roofline: 10.00 GB/s read, 100.0 GMAC/s" in text
    data = json.loads(file.read_text(encoding="utf-8"))
    assert set(data) == {"what", "model", "threads", "pyspec", "peer", "ratio", "details"}
    assert (data["what"], data["threads"]) == ("kernels", 3)
    key = "Q8_0 1000x2000 1"
    assert data["pyspec"][key] == {"us": 400.0, "gb_s": 2.5, "gmac_s": 5, "share": 0.25}
    assert data["peer"][key] == {"us": 800.0, "gb_s": 1.25, "gmac_s": 123456}
    assert data["ratio"][key] == 2
    assert data["details"]["roofline"]["read_gb_s"] == 10
    asked = (fake / "bench" / "asked").read_text().splitlines()
    assert asked[1] == "roofline --kernels auto --threads 3"
    assert asked[2] == (
        "product --type Q8_0 --kernels avx2 --in 768 --out 2048 --threads 3 --pairs 7 --columns 1,16 --cold"
    )
    assert len(asked) == 2 + 2 * 2


def test_all_types_and_the_matrices_of_a_model(fake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "--shapes", "qwen", "--kernels", "avx2", "--warm"]) == 0
    asked = (fake / "bench" / "asked").read_text().splitlines()
    assert asked[0] == "types --kernels avx2"
    assert len(asked) == 2 + 2 * 4
    assert asked[-1].startswith("product --type Q8_0 --kernels avx2 --in 8960 --out 1536 --threads 3")
    assert asked[-1].endswith("--columns 1,2,4,8,16 --warm")


def test_a_type_that_is_not_packed_is_an_error(fake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "--types", "Q4_K,Q3_K"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "error: type 'Q3_K' is unknown or not packed; packed types are Q4_K, Q8_0\n"


def test_without_the_program_a_sentence_says_how_to_build_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYSPEC_BUILD_DIR", str(tmp_path))
    assert main(["kernels"]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith(f"error: {tmp_path}/bench/kernels is not built: run `make build`")
    assert len(printed.err.splitlines()) == 1


def test_the_programs_own_errors_come_through(fake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = fake / "bench" / "kernels"
    program.write_text("#!/bin/sh\necho 'error: no such kernels' >&2\nexit 2\n")
    assert main(["kernels", "--kernels", "mmx"]) == 1
    assert capsys.readouterr().err == "error: kernels types: no such kernels\n"
    program.write_text("#!/bin/sh\nkill -KILL $$\n")
    assert main(["kernels"]) == 1
    assert "its process was ended by SIGKILL" in capsys.readouterr().err


# ---- the real program


def start(arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    if not PROGRAM.is_file():
        pytest.fail(f"{PROGRAM} is not built: run `make build`, or set PYSPEC_BUILD_DIR")
    return subprocess.run(
        [str(PROGRAM), *arguments], capture_output=True, text=True, timeout=600, check=False
    )


def run(*arguments: str) -> list[dict[str, Any]]:
    """The objects that it prints."""
    done = start(arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def available() -> list[str]:
    """Kernels that this processor can run; the program refuses the others."""
    names = ["avx512_vnni", "avx2_vnni", "avx2", "portable"]
    return [name for name in names if start(("types", "--kernels", name)).returncode == 0]


SMALL = ("--threads", "2", "--span", "1", "--pairs", "1", "--visit-ms", "1")


def test_every_type_is_multiplied_as_ggml_does_by_every_set() -> None:
    """The program compares with ggml by itself and refuses to time a wrong product. 17 columns are more than one tile."""
    for kernels in available():
        (types,) = run("types", "--kernels", kernels)
        assert types["kernels"] == kernels and "Q4_K" in types["types"]
        for name in types["types"]:
            shape = ["--in", "512", "--out", "40", "--columns", "17", "--kernels", kernels]
            (line,) = run("product", "--type", name, *shape, *SMALL)
            assert (line["kernels"], line["type"], line["columns"]) == (kernels, name, 17)
            assert 0 < line["difference"] < 0.1


def test_numbers_of_a_product_fit_together() -> None:
    lines = run("product", "--type", "Q4_K", "--in", "256", "--out", "50", "--columns", "1,4", *SMALL)
    assert [line["columns"] for line in lines] == [1, 4]
    for line in lines:
        assert line["cold"] is True and line["threads"] == 2
        assert line["copies"] * line["ggml"]["bytes"] >= 1 << 20
        assert line["ggml"]["bytes"] == 50 * 144
        assert line["ours"]["bytes"] >= 64 * 144  # whole panels of 16 rows
        assert line["ratio"] == pytest.approx(line["ggml"]["ns"] / line["ours"]["ns"], rel=1e-4)
        for side in (line["ours"], line["ggml"]):
            assert side["gmac_s"] == pytest.approx(256 * 50 * line["columns"] / side["ns"], rel=1e-4)
            assert side["gb_s"] == pytest.approx(side["bytes"] / side["ns"], rel=1e-4)


def test_warm_has_one_copy() -> None:
    small = ["--threads", "1", "--pairs", "2", "--visit-ms", "1"]
    (line,) = run("product", "--type", "Q8_0", "--in", "64", "--out", "3", "--columns", "2", "--warm", *small)
    assert (line["cold"], line["copies"], line["pairs"]) == (False, 1, 2)


def test_roofline_of_every_set() -> None:
    for kernels in available():
        (line,) = run("roofline", "--kernels", kernels, "--threads", "2", "--span", "1", "--passes", "2")
        assert (line["kernels"], line["threads"], line["passes"]) == (kernels, 2, 2)
        for rate in (line["read_gb_s"], line["dot_gmac_s"]):
            assert 0 < rate["median"] <= rate["best"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "'' is no mode; choose types, roofline or product"),
        (["sprint"], 2, "'sprint' is no mode"),
        (["roofline", "--speed", "3"], 2, "unknown option '--speed'; known here: --kernels"),
        (["roofline", "--passes"], 2, "--passes needs a value"),
        (["roofline", "--passes", "0"], 2, "--passes is '0', expected a whole number from 1"),
        (["roofline", "--threads", "1", "--threads", "2"], 2, "--threads is given twice"),
        (["roofline", "--kernels", "mmx"], 2, "kernels 'mmx' are unknown"),
        (["roofline", "--span", "1048576"], 1, "are available; ask for less with --span"),
        (["product", "--type", "Q4_K", "--in", "256"], 2, "product needs --out"),
        (["product", "--type", "Q3_K", "--in", "256", "--out", "16"], 2, "expected one of F32, F16, Q4_0, "),
        (["product", "--type", "Q4_K", "--in", "100", "--out", "16"], 2, "must be a multiple of 256"),
        (
            ["product", "--type", "Q4_K", "--in", "256", "--out", "16", "--columns", "1,,2"],
            2,
            "--columns is ''",
        ),
        (["product", "--type", "Q4_K", "--in", "256", "--out", "16", "--cold", "--warm"], 2, "contradict"),
    ],
)
def test_wrong_arguments_of_the_program(arguments: list[str], code: int, words: str) -> None:
    done = start(tuple(arguments))
    assert done.returncode == code
    assert done.stdout == "" and len(done.stderr.splitlines()) == 1
    assert words in done.stderr
