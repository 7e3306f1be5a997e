"""Compiling a changed copy of csrc/ in seconds, by borrowing the objects of an existing build.

The build's own commands are used: those of the sources that include a changed file, with the copy's folder in the place
of the original, then those that link. What is made goes into a folder of its own; the build is only read.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.faults.fault import FaultError

LIBRARY = "native/libpyspec.so"
FOLDERS = ("csrc", "tests")  # what is compiled from the copy


class CoreBuild:
    """A CMake build of the repository with Ninja and test programs, up to date with its sources."""

    def __init__(self, folder: Path, repository: Path) -> None:
        self.folder = folder
        if not (folder / "build.ninja").is_file() or not (folder / LIBRARY).is_file():
            raise FaultError(
                f"there is no build made with Ninja in {folder}: run `make build`, or name one with --build"
            )
        cache = (folder / "CMakeCache.txt").read_text(encoding="utf-8")
        self.home = next(
            line.partition("=")[2] for line in cache.splitlines() if line.startswith("CMAKE_HOME_DIRECTORY:")
        )
        self._compile: dict[str, list[str]] = {}  # object -> command
        for entry in json.loads((folder / "compile_commands.json").read_text(encoding="utf-8")):
            words = shlex.split(entry["command"])
            self._compile[words[words.index("-o") + 1]] = words
        self._users: dict[str, list[str]] = {}  # path in the repository -> objects made from it
        made = ""
        for line in self._ninja("-t", "deps").splitlines():
            if not line.startswith(" "):
                made = line.partition(":")[0]
            elif line.strip().startswith(self.home + "/"):
                self._users.setdefault(line.strip()[len(self.home) + 1 :], []).append(made)
        self._check_current(repository)

    def _check_current(self, repository: Path) -> None:
        """FaultError unless every object is made from the sources as they are now."""
        for path in sorted((repository / "csrc").rglob("*")):
            if not path.is_file():
                continue
            name = str(path.relative_to(repository))
            original, users = Path(self.home) / name, self._users.get(name, [])
            same = original.is_file() and original.read_bytes() == path.read_bytes()
            if same and (users or path.suffix != ".cpp"):
                changed = original.stat().st_mtime
                if all((self.folder / user).stat().st_mtime >= changed for user in users):
                    continue
            raise FaultError(f"the build in {self.folder} is not of the present {name}: run `make build`")

    def _ninja(self, *arguments: str) -> str:
        # that of the environment which runs us comes first
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        program = shutil.which("ninja", path=path)
        if program is None:
            raise FaultError("there is no ninja")
        command = [program, "-C", str(self.folder), *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise FaultError(f"ninja {' '.join(arguments)} failed: {result.stdout}{result.stderr}")
        return result.stdout

    def borrow(self, into: Path) -> None:
        """Make a folder that looks like the build to the tests: links to its programs and its library."""
        for name in ("native", "tests/native"):
            (into / name).mkdir(parents=True, exist_ok=True)
            for path in sorted((self.folder / name).iterdir()):
                link = into / name / path.name
                link.unlink(missing_ok=True)
                link.symlink_to(path)

    def make(self, file: str, tree: Path, into: Path, *, library: bool, programs: tuple[str, ...]) -> None:
        """Compile what includes the changed file from the copy `tree`, and link the library or the test programs into
        `into`. FaultError when the compiler refuses.
        """
        wanted = {f"tests/native/{name}" for name in programs} | ({LIBRARY} if library else set())
        links = self._links(wanted)
        used = {word for words in links.values() for word in words}
        objects = [name for name in self._users.get(file, []) if name in used]
        if not objects:
            raise FaultError(f"nothing in the build in {self.folder} is made from {file}")
        made = {name: into / "objects" / name for name in objects}
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(lambda name: self._run(self._compiling(name, made[name], tree)), objects))
        for target, words in links.items():
            path = into / target
            path.unlink(missing_ok=True)
            words = [str(made[word]) if word in made else word for word in words]
            self._run([str(path) if word == target else word for word in words])

    def _compiling(self, name: str, made: Path, tree: Path) -> list[str]:
        made.parent.mkdir(parents=True, exist_ok=True)
        words = list(self._compile[name])
        for option in ("-o", "-MF"):
            if option in words:
                at = words.index(option) + 1
                words[at] = str(made) if option == "-o" else f"{made}.d"
        for folder in FOLDERS:
            words = [word.replace(f"{self.home}/{folder}", f"{tree}/{folder}") for word in words]
        return words

    def _links(self, targets: set[str]) -> dict[str, list[str]]:
        """The commands that link the targets."""
        found = {}
        for line in self._ninja("-t", "commands", *sorted(targets)).splitlines():
            words = [word for word in shlex.split(line) if word not in (":", "&&")]
            if "-o" in words and (target := words[words.index("-o") + 1]) in targets:
                found[target] = words
        if missing := targets - set(found):
            raise FaultError(f"the build in {self.folder} does not know {', '.join(sorted(missing))}")
        return found

    def _run(self, words: list[str]) -> None:
        result = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise FaultError(f"the fault does not compile:\n{result.stderr[-3000:]}")
