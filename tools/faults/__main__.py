"""python -m tools.faults: see README.md."""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from time import perf_counter

from tools.faults.catalogue import FAULTS
from tools.faults.core_build import CoreBuild
from tools.faults.fault import Fault, FaultError
from tools.faults.workshop import Outcome, Workshop

REPOSITORY = Path(__file__).resolve().parents[2]


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(
        prog="python -m tools.faults", description="Break the code in known ways; the tests must notice each."
    )
    arguments.add_argument("--list", action="store_true", help="show the faults and their tests")
    arguments.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="only faults whose name contains this (may be repeated)",
    )
    arguments.add_argument("--jobs", type=int, default=1, metavar="N", help="faults tried at once (1)")
    arguments.add_argument(
        "--limit", type=float, default=120.0, metavar="SECONDS", help="a longer run of tests hangs (120)"
    )
    arguments.add_argument(
        "--build",
        type=Path,
        default=Path(os.environ.get("PYSPEC_BUILD_DIR", REPOSITORY / "build" / "dev")),
        metavar="FOLDER",
        help="the CMake build whose objects are borrowed (build/dev)",
    )
    arguments.add_argument("--keep", action="store_true", help="leave the copy of the tree for looking at")
    return arguments


def selected(only: Sequence[str] | None) -> list[Fault]:
    """FaultError when a name fits nothing."""
    if not only:
        return list(FAULTS)
    for name in only:
        if not any(name in fault.name for fault in FAULTS):
            raise FaultError(f"no fault has {name!r} in its name; --list shows them")
    return [fault for fault in FAULTS if any(name in fault.name for name in only)]


def show_list(faults: Sequence[Fault]) -> None:
    for fault in faults:
        print(f"{fault.name}\n    {fault.file}")
        for test in fault.tests:
            print(f"    {test}")


def run(faults: Sequence[Fault], folder: Path, *, build: Path, jobs: int, limit: float) -> list[Outcome]:
    """Try the faults in copies below the folder, printing one row each. Outcomes in the order of the faults."""
    for fault in faults:
        fault.applied_to(REPOSITORY)
    core = CoreBuild(build.resolve(), REPOSITORY)
    workshops = [Workshop(folder / str(i), REPOSITORY, core, limit) for i in range(max(1, jobs))]
    print(f"{len(faults)} faults; without any the tests", end=" ", flush=True)
    print(f"pass in {workshops[0].check(faults):.0f} s", flush=True)
    free: queue.SimpleQueue[Workshop] = queue.SimpleQueue()
    for workshop in workshops:
        free.put(workshop)

    def attempt(fault: Fault) -> Outcome:
        workshop = free.get()
        try:
            return workshop.try_fault(fault)
        finally:
            free.put(workshop)

    width = max(len(fault.name) for fault in faults)
    outcomes: dict[Fault, Outcome] = {}
    pool = ThreadPoolExecutor(len(workshops))
    try:
        pending = {pool.submit(attempt, fault): fault for fault in faults}
        for done in as_completed(pending):
            fault, outcome = pending[done], done.result()
            outcomes[fault] = outcome
            said = outcome.caught_by or "NOT CAUGHT"
            print(
                f"{len(outcomes):3}/{len(faults)}  {fault.name:{width}}  {outcome.seconds:5.1f} s  {said}",
                flush=True,
            )
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for workshop in workshops:
            workshop.stop()
        pool.shutdown()
    return [outcomes[fault] for fault in faults]


def main(argv: Sequence[str] | None = None) -> int:
    """0: all caught. 1: some were not. 2: the list, the build or the tests cannot be used as they are. 130: interrupted."""
    options = parser().parse_args(argv)
    started = perf_counter()
    folder = Path(tempfile.mkdtemp(prefix="pyspec-faults-"))
    try:
        faults = selected(options.only)
        if options.list:
            show_list(faults)
            return 0
        outcomes = run(faults, folder, build=options.build, jobs=options.jobs, limit=options.limit)
    except FaultError as error:
        print(f"\nerror: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    finally:
        if options.keep:
            print(f"the copies are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    missed = [fault for fault, outcome in zip(faults, outcomes, strict=True) if not outcome.caught_by]
    n_caught = len(faults) - len(missed)
    print(f"{n_caught} of {len(faults)} faults caught, {perf_counter() - started:.0f} s")
    for fault in missed:
        print(f"not caught: {fault.name} ({fault.file})")
    return 1 if missed else 0


def _terminated(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _terminated)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
