"""Command line: `python -m tools.bench WHAT ...`, from the root of the source tree."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .acceptance import acceptance
from .chain import chain
from .contest import Settings, progress
from .drafters import SIZES, DrafterSettings, drafters
from .kernels import SHAPES, KernelSettings, kernels
from .loading import load
from .machine import file_record, machine
from .process import BenchError
from .report import as_json, as_text
from .result import Result
from .rounds import rounds
from .speculation import spec
from .speed import decode, prefill, tn
from .worker import CONTESTANTS
from .workloads import KINDS

#: Those of a model; `kernels` and `drafters` have none.
BENCHMARKS: dict[str, Callable[[Settings], Result]] = {
    "decode": decode,
    "prefill": prefill,
    "tn": tn,
    "load": load,
    "round": rounds,
    "spec": spec,
    "chain": chain,
    "acceptance": acceptance,
}
#: They have no peer.
ALONE = ("round", "drafters", "chain", "acceptance")
PEERS = [name for name in CONTESTANTS if name != "pyspec"]

#: Options that only some benchmarks have, with their defaults by benchmark. Given elsewhere they are refused.
SPECIAL: dict[str, dict[str, Any]] = {
    "model": dict.fromkeys(BENCHMARKS, "smollm2"),
    "peer": dict.fromkeys(BENCHMARKS, PEERS[0]),
    "n_ctx": dict.fromkeys(BENCHMARKS, 4096),
    "offline": dict.fromkeys(BENCHMARKS, False),
    "accept_licence": dict.fromkeys(BENCHMARKS, False),
    "fill": {"decode": 128, "tn": 128},
    "tokens": {"decode": 128, "round": 256, "spec": 256, "chain": 128, "acceptance": 64},
    "prompt_tokens": {"prefill": 512},
    "widths": {"tn": ()},
    "kinds": {"round": KINDS, "spec": KINDS, "chain": KINDS, "acceptance": KINDS},
    "draft": {"spec": None, "chain": None, "acceptance": None},
    "drafters": {"spec": None, "chain": None, "drafters": None},
    "sizes": {"drafters": SIZES},
    "n_draft": {"spec": None, "acceptance": None},
    "controller": {"spec": None},
    "types": {"kernels": ()},
    "columns": {"kernels": (1, 2, 4, 8, 16)},
    "shapes": {"kernels": "small"},
    "kernels": dict.fromkeys(("decode", "prefill", "tn", "kernels"), "auto"),
    "warm": {"kernels": False},
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark. Exit codes: 0 done, 1 it could not be done, 2 wrong arguments, 130 interrupted."""
    parser = _parser()
    options = parser.parse_args(arguments)
    special = _special(parser, options)
    try:
        result = _run(options, special)
    except BenchError as error:
        progress("")
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        progress("")
        return 130
    text = as_text(result)
    if options.json == "-":
        print(json.dumps(as_json(result)))
        print(text, file=sys.stderr)
        return 0
    print(text)
    if options.json is not None:
        Path(options.json).write_text(json.dumps(as_json(result), indent=1) + "\n", encoding="utf-8")
    return 0


def _run(options: argparse.Namespace, special: dict[str, Any]) -> Result:
    about = machine()
    if options.what == "kernels":
        result = kernels(KernelSettings(threads=options.threads, repeat=options.repeat, **special))
        compared = True
    elif options.what == "drafters":
        result = drafters(DrafterSettings(repeat=options.repeat, **special))
        compared = False
    else:
        result = _run_on_model(options, special)
        compared = options.what not in ALONE and special["peer"] != "none"
    progress("")
    result.machine = about
    result.settings["repeat"] = options.repeat
    if about["load_average"] > about["cpus"] / 2:
        result.notes.append(
            f"The machine was busy when this began (load {about['load_average']} on {about['cpus']} CPUs): "
            "the numbers are not worth much."
        )
    if options.what not in ALONE and not compared:
        result.notes.append("No peer was measured.")
    elif options.repeat < 7 and (compared or options.what == "chain"):
        unit = "passes" if options.what == "chain" else "pairs"
        result.notes.append(f"Only {options.repeat} {unit}: take at least 7 before believing a ratio.")
    return result


def _run_on_model(options: argparse.Namespace, special: dict[str, Any]) -> Result:
    own = dict(special)
    name, peer, n_ctx, offline, accept_licence = (
        own.pop(key) for key in ("model", "peer", "n_ctx", "offline", "accept_licence")
    )

    def find(wanted: str) -> Path:
        return _find(wanted, offline=offline, accept_licence=accept_licence)

    path = find(name)
    draft = own.pop("draft", None)
    files = {"model": path} if draft is None else {"model": path, "draft": find(draft)}
    settings = Settings(
        what=options.what,
        model=name,
        path=path,
        threads=options.threads,
        repeat=options.repeat,
        peer=None if peer == "none" or options.what in ALONE else peer,
        n_ctx=n_ctx,
        draft_name=draft,
        draft=files.get("draft"),
        **own,
    )
    progress("reading the files")
    records = {role: file_record(file) for role, file in files.items()}
    result = BENCHMARKS[options.what](settings)
    result.files = records
    return result


def _find(name: str, *, offline: bool, accept_licence: bool) -> Path:
    from pyspec.errors import PyspecError
    from pyspec.fetch import resolve_model

    try:
        path = resolve_model(name, offline=offline, accept_licence=accept_licence)
    except PyspecError as error:
        raise BenchError(str(error)) from None
    if not path.is_file():
        raise BenchError(f"{path} is not a file")
    return path


def _special(parser: argparse.ArgumentParser, options: argparse.Namespace) -> dict[str, Any]:
    """The benchmark's own options, with defaults; a parser error for those of other benchmarks."""
    found = {}
    for name, defaults in SPECIAL.items():
        given = getattr(options, name)
        if options.what in defaults:
            found[name] = defaults[options.what] if given is None else given
        elif given is not None:
            parser.error(
                f"--{name.replace('_', '-')} belongs to {', '.join(defaults)}, not to {options.what}"
            )
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench",
        description="Measure pyspec beside a peer: same file, same threads, each in its own process, in turns.",
        epilog="decode, prefill: tokens per second. tn: milliseconds to decode n tokens together. load: time and memory "
        "up to the first token. round: what a speculative round costs beside the backend's work. spec: whole answers "
        "with drafters beside the peer's plain ones. kernels: products of packed matrices beside ggml's and beside what the "
        "machine can do. chain: all drafters together beside each of them alone. acceptance: how many tokens of a draft model "
        "are accepted, by temperature. drafters: what drafters that read text cost by themselves. "
        "Ratios to a peer above 1: pyspec is faster.",
    )
    parser.add_argument("what", choices=[*BENCHMARKS, "kernels", "drafters"], help="what to measure")
    parser.add_argument("--model", help="GGUF file or manifest name (default: smollm2)")
    parser.add_argument(
        "--draft", help="spec, chain, acceptance: GGUF file or manifest name of the draft model"
    )
    parser.add_argument(
        "--drafters",
        help='spec, chain, drafters: drafters, as in "ngram-simple:n=12,m=48,draft-simple" (drafters: all that read text)',
    )
    parser.add_argument(
        "--sizes", type=_sizes, help="drafters: tokens of history (default: 1000,10000,100000,1000000)"
    )
    parser.add_argument(
        "--n-draft", type=_whole(1), help="spec, acceptance: longest draft of the draft model"
    )
    parser.add_argument(
        "--controller", choices=["auto", "fixed"], help="spec: who chooses lengths (default: as LLM does)"
    )
    parser.add_argument("--threads", type=_whole(0), default=0, help="0: physical cores (default)")
    parser.add_argument(
        "--repeat", type=_whole(1), default=7, help="pairs, or passes; medians are reported (default: 7)"
    )
    parser.add_argument(
        "--peer",
        choices=[*PEERS, "none"],
        help=f"whom to compare with (default: {PEERS[0]}; {', '.join(ALONE)} have none)",
    )
    parser.add_argument(
        "--json", metavar="FILE", help='also write everything as JSON; "-": to stdout, the table to stderr'
    )
    parser.add_argument("--n-ctx", type=_whole(1), help="size of the context (default: 4096)")
    parser.add_argument(
        "--fill", type=_whole(1), help="decode, tn: tokens in memory beforehand (default: 128)"
    )
    parser.add_argument(
        "--tokens",
        type=_whole(2),
        help="decode: tokens (128); round, spec: most tokens of an answer (256; chain 128, acceptance 64)",
    )
    parser.add_argument(
        "--prompt-tokens", type=_whole(9), help="prefill: tokens of the prompt (default: 512)"
    )
    parser.add_argument("--widths", type=_widths, help="tn: values of n (default: 1-16,24,32,48,64)")
    parser.add_argument(
        "--kinds",
        type=_kinds,
        help=f"round, spec, chain, acceptance: some of {','.join(KINDS)} (default: all)",
    )
    parser.add_argument(
        "--types", type=_types, help='kernels: types, as in "Q4_K,Q6_K" (default: all packed ones)'
    )
    parser.add_argument("--columns", type=_widths, help="kernels: numbers of columns (default: 1,2,4,8,16)")
    parser.add_argument(
        "--shapes", choices=list(SHAPES), help="kernels: matrices, see the README (default: small)"
    )
    parser.add_argument(
        "--kernels", metavar="NAME", help="decode, prefill, tn, kernels: our instruction set (default: auto)"
    )
    parser.add_argument(
        "--warm", action="store_true", default=None, help="kernels: weights in the caches, not from memory"
    )
    parser.add_argument("--offline", action="store_true", default=None, help="never fetch a model")
    parser.add_argument(
        "--accept-licence",
        action="store_true",
        default=None,
        help="accept the terms of a model that is fetched",
    )
    return parser


def _whole(low: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low}")
        return value

    return parse


def _widths(text: str) -> tuple[int, ...]:
    """ "1-4,8" as 1, 2, 3, 4, 8."""
    found: list[int] = []
    for piece in text.split(","):
        first, _, last = piece.partition("-")
        try:
            numbers = range(int(first), int(last or first) + 1)
        except ValueError:
            numbers = range(0)
        if not numbers or numbers[0] < 1 or numbers[-1] > 2048:
            raise argparse.ArgumentTypeError(f"{piece!r} is not a width from 1 to 2048, or a range like 1-16")
        found += numbers
    return tuple(dict.fromkeys(found))


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(_whole(1)(piece) for piece in text.split(",")))


def _types(text: str) -> tuple[str, ...]:
    """Names as ggml's, in capitals; which ones there are, the native program knows."""
    return tuple(dict.fromkeys(text.upper().split(",")))


def _kinds(text: str) -> tuple[str, ...]:
    wanted = text.split(",")
    for kind in wanted:
        if kind not in KINDS:
            raise argparse.ArgumentTypeError(f"unknown kind {kind!r}; known kinds are {', '.join(KINDS)}")
    return tuple(kind for kind in KINDS if kind in wanted)


if __name__ == "__main__":
    raise SystemExit(main())
