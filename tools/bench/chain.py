"""chain: all drafters together beside each of them alone, on whole greedy answers, by kind of text. No peer.

Each arrangement is an LLM in a process of its own; all of them answer one prompt in turns before the next one comes, so that a
machine that slows down for a while slows all of them. Answers without drafters come from the LLM with all of them, which does
not learn from those. Rates are those of `spec`. `share` is the rate of the chain by that of its best drafter alone, the one
with the highest median.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from .contest import Contest, Settings, progress
from .process import BenchError, Worker
from .result import Result
from .speculation import rate
from .stats import quantile, summary
from .workloads import PROMPTS

#: Names of the arrangements that are not one drafter's.
PLAIN, TOGETHER = "plain", "together"

#: By arrangement, for each pass: the answers to all prompts.
Passes = dict[str, list[list[dict[str, Any]]]]


def chain(settings: Settings) -> Result:
    """`repeat` passes over the prompts of the chosen kinds, each with new LLMs. BenchError for fewer than two drafters."""
    result = Result("chain", settings.model, unit="tokens per second")
    result.settings.update(tokens=settings.tokens, draft=settings.draft_name, drafters=settings.drafters)
    from pyspec.drafters.registry import drafter_kind

    options = {"path": str(settings.path), "threads": settings.threads, "n_ctx": settings.n_ctx}
    draft = str(settings.draft) if settings.draft else None
    chosen = [(kind, text) for kind, text in PROMPTS if kind in settings.kinds]
    kinds = [kind for kind, _ in chosen]
    with Contest(settings, result) as contest, ExitStack() as stack:
        opened = contest.ours.ask("open_llm", **options, draft=draft, drafters=settings.drafters)
        contest.opened(opened, 0)
        parts = _parts(settings.drafters, opened["drafters"])
        workers = {TOGETHER: contest.ours}
        for name in parts:
            workers[name] = stack.enter_context(Worker("pyspec"))
        requests: dict[str, str | None] = {TOGETHER: settings.drafters, **parts}
        ids = contest.ours.ask("chat_ids", messages=[text for _, text in chosen])["ids"]
        if (need := max(map(len, ids)) + settings.tokens) > opened["n_ctx"]:
            raise BenchError(
                f"prompt and answer need {need} tokens, and the context has {opened['n_ctx']}; ask for fewer --tokens"
            )
        passes: Passes = {name: [] for name in (PLAIN, *workers)}
        order = list(passes)
        for turn in range(settings.repeat):
            for name, worker in workers.items():
                progress(f"chain: pass {turn + 1} of {settings.repeat}, opening {name}")
                reads = name == TOGETHER or drafter_kind(name).needs_draft_model
                worker.ask("open_llm", **options, draft=draft if reads else None, drafters=requests[name])
            for answers in passes.values():
                answers.append([])
            for place, prompt in enumerate(ids):
                order.append(order.pop(0))  # whoever was first is last for the next prompt
                for name in order:
                    progress(
                        f"chain: pass {turn + 1} of {settings.repeat}, {kinds[place]} ({place + 1} of {len(ids)}), {name}"
                    )
                    worker = workers.get(name, contest.ours)
                    request = {"ids": prompt, "max_tokens": settings.tokens, "plain": name == PLAIN}
                    passes[name][-1].append(worker.ask("answer", **request))
    result.settings["active_drafters"] = list(parts)
    for kind in dict.fromkeys(kinds):
        _count(result, kind, [i for i, k in enumerate(kinds) if k == kind], passes)
    return result


def _parts(request: str | None, names: list[str]) -> dict[str, str]:
    """What to ask for to get each drafter of the chain alone, by name. names: the drafters the chain came to."""
    from pyspec.drafters.registry import DrafterSpec, parse_drafters

    found = {name: name for name in names}
    for spec in parse_drafters(request) if request else ():
        assert isinstance(spec, DrafterSpec)  # a text has no drafter objects
        given = ",".join(f"{option}={value}" for option, value in spec.given)
        found[spec.name] = f"{spec.name}:{given}" if given else spec.name
    if len(found) < 2:
        raise BenchError(
            f"a chain has two drafters or more, and this one has {'/'.join(found) or 'none'}: "
            "give --draft MODEL, or --drafters with several"
        )
    return found


def _count(result: Result, kind: str, places: list[int], passes: Passes) -> None:
    """Fill in one kind. Counts are those of the chain's last pass; all answers of all arrangements count for the text."""
    first = passes[PLAIN][0]
    same = all(
        one[i]["tokens"] == first[i]["tokens"] for turns in passes.values() for one in turns for i in places
    )
    last = [passes[TOGETHER][-1][i] for i in places]
    entry: dict[str, Any] = {
        "tok_s": None,
        "plain_tok_s": None,
        "alone_tok_s": dict.fromkeys(name for name in passes if name not in (PLAIN, TOGETHER)),
        "best": None,
        "share": None,
        "gain": None,
        **{key: sum(answer[key] for answer in last) for key in ("drafted", "accepted", "rounds")},
        "same_text": same,
        "emitted": sum(len(answer["tokens"]) for answer in last),
    }
    result.pyspec[kind] = entry
    rates: dict[str, list[float]] = {}
    for name, turns in passes.items():
        found = [rate([one[i] for i in places]) for one in turns]
        usable = [value for value in found if value is not None]
        if len(usable) < len(found):
            result.notes.append(f"{kind}: an answer ended with its first token, so there is no rate.")
            return
        rates[name] = usable
        result.samples["pyspec"][f"{kind} {name}"] = usable
    medians = {name: quantile(found, 0.5) for name, found in rates.items()}
    entry["alone_tok_s"] = {name: medians[name] for name in entry["alone_tok_s"]}
    entry["best"] = best = max(entry["alone_tok_s"], key=lambda name: medians[name])
    entry["tok_s"], entry["plain_tok_s"] = medians[TOGETHER], medians[PLAIN]
    shares = [own / other for own, other in zip(rates[TOGETHER], rates[best], strict=True)]
    gains = [own / other for own, other in zip(rates[TOGETHER], rates[PLAIN], strict=True)]
    entry["share"], entry["gain"] = quantile(shares, 0.5), quantile(gains, 0.5)
    result.spread["pyspec"][kind] = summary(rates[TOGETHER])
    result.spread["ratio"][kind] = summary(shares)
