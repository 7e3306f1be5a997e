"""What a seeded fault is: one exact replacement in one file, and the tests that have to notice it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class FaultError(Exception):
    """The list of faults or the build cannot be used as it is; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Fault:
    """name: a few words. file: path in the repository. old: text that occurs in it exactly once; new: what takes its
    place. tests: pytest selections, of which at least one test has to fail.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def in_core(self) -> bool:
        """Does C++ have to be compiled again?"""
        return self.file.startswith("csrc/")

    @property
    def native_programs(self) -> tuple[str, ...]:
        """Names of the C++ test programs among the tests."""
        head = "tests/native/test_native.py::test_native["
        return tuple(test[len(head) : -1] for test in self.tests if test.startswith(head))

    @property
    def needs_library(self) -> bool:
        """Do tests from Python need the changed library?"""
        return self.in_core and len(self.native_programs) < len(self.tests)

    def applied_to(self, root: Path) -> str:
        """The text of the file with the fault in it. FaultError when the old text is not there exactly once."""
        path = root / self.file
        if not path.is_file():
            raise FaultError(f"fault {self.name!r}: there is no file {self.file}")
        text = path.read_text(encoding="utf-8")
        n = text.count(self.old)
        if n != 1 or self.new == self.old:
            raise FaultError(
                f"fault {self.name!r}: its old text occurs {n} times in {self.file}, expected once. Bring the fault "
                f"up to date with the code:\n{self.old}"
            )
        return text.replace(self.old, self.new)
