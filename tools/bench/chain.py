"""chain: all drafters together beside each of them alone, on whole greedy answers, by kind of text. No peer.

Each arrangement - no drafters, every drafter alone, the whole chain - is an LLM in a process of its own under the
controller. All of them answer one prompt at a time, in turns of a few tokens, so that a machine that slows down for some
seconds slows all of them; what one of them waits for the others is not counted. Rates are those of `spec`. `share` is the
rate of the chain by that of its best drafter alone, the one with the highest median of this kind.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from .contest import Contest, Settings, progress
from .process import BenchError, Worker
from .result import Result
from .speculation import rate, workload
from .stats import quantile, summary
from .workloads import FILLER

#: Names of the arrangements that are not one drafter's.
PLAIN, TOGETHER = "plain", "together"
#: Tokens of an answer that is not timed, before all others: the cost table of this machine is measured in it.
WARM_UP = 64

#: Tokens of a turn, so that fast and slow ones have about as many turns (rounds are not cut).
PIECE = 16

#: By arrangement, for each pass: the answers to all prompts.
Passes = dict[str, list[list[dict[str, Any]]]]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """One LLM among those that are compared. drafters: what it is asked for; names: the drafters it has to come to."""

    name: str
    worker: Worker
    drafters: str | None
    names: tuple[str, ...]
    needs_draft: bool


def chain(settings: Settings) -> Result:
    """`repeat` passes over the prompts of the chosen kinds, each with new LLMs. BenchError for fewer than two drafters."""
    result = Result("chain", settings.model, unit="tokens per second")
    result.settings.update(tokens=settings.tokens, draft=settings.draft_name, drafters=settings.drafters)
    with Contest(settings, result) as contest, ExitStack() as stack:
        opened = _open(settings, contest.ours, settings.drafters, with_draft=True)
        contest.opened(opened, 0)
        arrangements = _arrangements(settings, contest.ours, opened["drafters"], stack)
        result.settings["active_drafters"] = opened["drafters"]
        kinds, ids = workload(contest)
        for one in arrangements:
            progress(f"chain: warming up {one.name}")
            _renew(settings, one)
            filler = one.worker.ask("ids", text=FILLER, n=min(128, opened["n_ctx"] // 2))["ids"]
            one.worker.ask("answer", ids=filler, max_tokens=min(WARM_UP, opened["n_ctx"] // 2))
        passes: Passes = {one.name: [] for one in arrangements}
        for turn in range(settings.repeat):
            for one in arrangements:
                _renew(settings, one)
                passes[one.name].append([])
            for place, prompt in enumerate(ids):
                progress(f"chain: pass {turn + 1} of {settings.repeat}, {kinds[place]}")
                for name, answer in answers(
                    turns(arrangements, turn + place), prompt, settings.tokens
                ).items():
                    passes[name][-1].append(answer)
    for kind in dict.fromkeys(kinds):
        count(result, kind, [i for i, k in enumerate(kinds) if k == kind], passes)
    return result


def turns(arrangements: list[Arrangement], number: int) -> list[Arrangement]:
    """Who answers when: another begins each time, and every other time the rest follow in the opposite order."""
    first = number % len(arrangements)
    order = arrangements[first:] + arrangements[:first]
    return order if number // len(arrangements) % 2 == 0 else [order[0], *reversed(order[1:])]


def answers(order: list[Arrangement], prompt: list[int], max_tokens: int) -> dict[str, dict[str, Any]]:
    """The answers of all to one prompt, piece by piece in this order."""
    found: dict[str, dict[str, Any]] = {}
    for one in order:
        if ended := one.worker.ask("begin_answer", ids=prompt, max_tokens=max_tokens):
            found[one.name] = ended
    while going := [one for one in order if one.name not in found]:
        for one in going:
            if ended := one.worker.ask("go_on", n=PIECE):
                found[one.name] = ended
    return found


def count(result: Result, kind: str, places: list[int], passes: Passes) -> None:
    """Fill in one kind. Counts are those of the last pass; all answers of all arrangements count for the text."""
    first = passes[PLAIN][0]
    alone = [name for name in passes if name not in (PLAIN, TOGETHER)]
    last = {name: [found[-1][i] for i in places] for name, found in passes.items()}
    counts = {
        name: {key: sum(answer[key] for answer in answers) for key in ("drafted", "accepted", "rounds")}
        for name, answers in last.items()
    }
    entry: dict[str, Any] = {
        "tok_s": None,
        "plain_tok_s": None,
        "alone": {name: {"tok_s": None, **counts[name]} for name in alone},
        "best": None,
        "share": None,
        "gain": None,
        **counts[TOGETHER],
        "same_text": all(
            one[i]["tokens"] == first[i]["tokens"]
            for found in passes.values()
            for one in found
            for i in places
        ),
        "emitted": sum(len(answer["tokens"]) for answer in last[TOGETHER]),
    }
    result.pyspec[kind] = entry
    rates: dict[str, list[float]] = {}
    for name, found in passes.items():
        rates[name] = [value for one in found if (value := rate([one[i] for i in places])) is not None]
        if len(rates[name]) < len(found):
            result.notes.append(f"{kind}: an answer ended with its first token, so there is no rate.")
            return
    medians = {name: quantile(values, 0.5) for name, values in rates.items()}
    for name in alone:
        entry["alone"][name]["tok_s"] = medians[name]
    entry["best"] = best = max(alone, key=lambda name: medians[name])
    entry["tok_s"], entry["plain_tok_s"] = medians[TOGETHER], medians[PLAIN]
    shares = [own / other for own, other in zip(rates[TOGETHER], rates[best], strict=True)]
    gains = [own / other for own, other in zip(rates[TOGETHER], rates[PLAIN], strict=True)]
    entry["share"], entry["gain"] = quantile(shares, 0.5), quantile(gains, 0.5)
    result.samples["pyspec"].update({f"{kind} {name}": values for name, values in rates.items()})
    result.spread["pyspec"][kind] = summary(rates[TOGETHER])
    result.spread["ratio"][kind] = summary(shares)


def parts(request: str | None, names: list[str]) -> dict[str, str]:
    """What to ask for to get each drafter of the chain alone, by name. names: the drafters the chain came to."""
    from pyspec.drafters.registry import DrafterSpec, parse_drafters

    if len(names) < 2:
        raise BenchError(
            f"a chain has two drafters or more, and this one has {'/'.join(names) or 'none'}: "
            "give --draft MODEL, or --drafters with several"
        )
    found = {name: name for name in names}
    for spec in parse_drafters(request) if request else ():
        if isinstance(spec, DrafterSpec) and spec.given and spec.name in found:
            given = ",".join(f"{option}={value}" for option, value in spec.given)
            found[spec.name] = f"{spec.name}:{given}"
    return found


def _arrangements(settings: Settings, ours: Worker, names: list[str], stack: ExitStack) -> list[Arrangement]:
    """All of them, the chain first; each of the others with a new process, which the stack ends."""
    from pyspec.drafters.registry import drafter_kind

    requests = parts(settings.drafters, names)
    found = [Arrangement(TOGETHER, ours, settings.drafters, tuple(names), needs_draft=True)]
    for name, request in {PLAIN: "none", **requests}.items():
        worker = stack.enter_context(Worker("pyspec"))
        drafts = name != PLAIN
        needs_draft = drafts and drafter_kind(name).needs_draft_model
        found.append(Arrangement(name, worker, request, (name,) if drafts else (), needs_draft))
    return found


def _open(settings: Settings, worker: Worker, drafters: str | None, *, with_draft: bool) -> dict[str, Any]:
    return worker.ask(
        "open_llm",
        path=str(settings.path),
        threads=settings.threads,
        n_ctx=settings.n_ctx,
        draft=str(settings.draft) if settings.draft and with_draft else None,
        drafters=drafters,
    )


def _renew(settings: Settings, one: Arrangement) -> None:
    """A new LLM, which has seen no answer. BenchError when it does not have the drafters it was asked for."""
    opened = _open(settings, one.worker, one.drafters, with_draft=one.needs_draft)
    if tuple(opened["drafters"]) != one.names:
        raise BenchError(
            f"{one.name}: asked for {'/'.join(one.names) or 'none'}, and the drafters are now "
            f"{'/'.join(opened['drafters']) or 'none'}; see the warning above"
        )
