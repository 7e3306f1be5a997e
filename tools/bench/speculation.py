"""spec: whole greedy answers with drafters beside the peer's plain ones, by kind of text.

tok_s = (emitted - 1) / time from the first token to the last, over both prompts of a kind, an end token counting as emitted;
prompt time is apart. Each pass opens a new LLM, so no drafter can have seen an answer before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .contest import Contest, Settings, asking, progress
from .process import BenchError
from .result import Result
from .stats import quantile
from .workloads import PROMPTS


def spec(settings: Settings) -> Result:
    """`repeat` passes over the prompts of the chosen kinds, `tokens` tokens each or up to the end token."""
    result = Result("spec", settings.model, unit="tokens per second")
    result.settings.update(
        tokens=settings.tokens,
        draft=settings.draft_name,
        drafters=settings.drafters,
        n_draft=settings.n_draft,
        controller=settings.controller,
    )
    with Contest(settings, result) as contest:
        plain_options = {"path": str(settings.path), "threads": settings.threads, "n_ctx": settings.n_ctx}
        options = {
            **plain_options,
            "draft": str(settings.draft) if settings.draft else None,
            "drafters": settings.drafters,
            "n_draft": settings.n_draft,
            "controller": settings.controller,
        }
        contest.ours.ask("open_llm", **options)  # wrong drafters are found before minutes are spent
        contest.opened(contest.ours.ask("open_llm", **plain_options, drafters="none"), 0)
        kinds, ids = workload(contest)
        plain = _plain(contest, ids)
        contest.open_peer()
        _choose(contest, max(ids, key=len))

        ours: list[list[dict[str, Any]]] = []
        plains: list[list[dict[str, Any]]] = []  # our own without drafters, beside each of those
        peers: list[list[dict[str, Any]]] = []
        for turn in range(settings.repeat):
            opened = contest.ours.ask("open_llm", **options)
            result.settings["active_drafters"] = opened["drafters"]
            pass_ours: list[dict[str, Any]] = []
            pass_plain: list[dict[str, Any]] = []
            pass_peers: list[dict[str, Any]] = []
            for place, prompt in enumerate(ids):
                progress(
                    f"spec: pass {turn + 1} of {settings.repeat}, {kinds[place]} ({place + 1} of {len(ids)})"
                )
                request = asking("answer", ids=prompt, max_tokens=settings.tokens)
                without = {"ids": prompt, "max_tokens": settings.tokens, "plain": True}
                if (turn + place) % 2:
                    pass_plain.append(contest.ours.ask("answer", **without))
                a, b = contest.pair(turn + place, request)
                if not (turn + place) % 2:
                    pass_plain.append(contest.ours.ask("answer", **without))
                pass_ours.append(a)
                if b is not None:
                    pass_peers.append(b)
            ours.append(pass_ours)
            plains.append(pass_plain)
            if pass_peers:
                peers.append(pass_peers)
    for kind in dict.fromkeys(kinds):
        _count(result, kind, [i for i, k in enumerate(kinds) if k == kind], plain, ours, plains, peers)
    return result


def workload(contest: Contest) -> tuple[list[str], list[list[int]]]:
    """The prompts of the chosen kinds: of each its kind and its token ids. BenchError when an answer would not fit."""
    settings, result = contest.settings, contest.result
    chosen = [(kind, text) for kind, text in PROMPTS if kind in settings.kinds]
    prompts = contest.ours.ask("chat_ids", messages=[text for _, text in chosen])
    ids: list[list[int]] = prompts["ids"]
    if not prompts["templated"]:
        result.notes.append("The file has no chat template: the prompts are the plain messages.")
    need, n_ctx = max(map(len, ids)) + settings.tokens, result.settings["n_ctx"]
    if need > n_ctx:
        raise BenchError(
            f"prompt and answer need {need} tokens, and the context has {n_ctx}; "
            "ask for fewer --tokens or other --kinds"
        )
    return [kind for kind, _ in chosen], ids


def rate(answers: Sequence[dict[str, Any]]) -> float | None:
    """Tokens per second of some answers together; None when no token followed a first one."""
    seconds = sum(answer["seconds"] for answer in answers)
    emitted = sum(len(answer["tokens"]) - 1 for answer in answers if answer["tokens"])
    return emitted / seconds if emitted > 0 and seconds > 0 else None


def _plain(contest: Contest, ids: list[list[int]]) -> list[dict[str, Any]]:
    """Our own answers without drafters: what the text has to be."""
    found = []
    for place, prompt in enumerate(ids):
        progress(f"spec: plain {place + 1} of {len(ids)}")
        found.append(contest.ours.ask("answer", ids=prompt, max_tokens=contest.settings.tokens))
    return found


def _choose(contest: Contest, ids: list[int]) -> None:
    n = min(16, len(ids) // 2)
    contest.choose("decode", ids, len(ids) - n - 1)


def _count(
    result: Result,
    kind: str,
    places: list[int],
    plain: list[dict[str, Any]],
    ours: list[list[dict[str, Any]]],
    plains: list[list[dict[str, Any]]],
    peers: list[list[dict[str, Any]]],
) -> None:
    """Fill in one kind. Counts are those of one pass, the last; all passes count for the text."""
    rates = [rate([one[i] for i in places]) for one in ours]
    peer_rates = [rate([one[i] for i in places]) for one in peers]
    last = [ours[-1][i] for i in places]
    entry: dict[str, Any] = {
        "tok_s": None,
        **{key: sum(answer[key] for answer in last) for key in ("drafted", "accepted", "rounds")},
        "same_text": all(one[i]["tokens"] == plain[i]["tokens"] for one in ours for i in places),
        "emitted": sum(len(answer["tokens"]) for answer in last),
        "plain_tok_s": None,
        "gain": None,
    }
    result.pyspec[kind] = entry
    if peers:
        result.peer[kind] = {"tok_s": None, "emitted": sum(len(peers[-1][i]["tokens"]) for i in places)}
        result.ratio[kind] = None
    usable = [value for value in rates if value is not None]
    usable_peers = [value for value in peer_rates if value is not None]
    if len(usable) < len(rates) or len(usable_peers) < len(peer_rates):
        result.notes.append(f"{kind}: an answer ended with its first token, so there is no rate.")
        return
    plain_rates = [rate([one[i] for i in places]) or 0.0 for one in plains]
    entry["plain_tok_s"] = quantile(plain_rates, 0.5)
    entry["gain"] = quantile(
        [own / other for own, other in zip(usable, plain_rates, strict=True) if other], 0.5
    )
    result.add(kind, usable, usable_peers, rates=True)
    entry["tok_s"] = result.median("pyspec", kind)
    if peers:
        result.peer[kind]["tok_s"] = result.median("peer", kind)
        result.ratio[kind] = result.median("ratio", kind)
