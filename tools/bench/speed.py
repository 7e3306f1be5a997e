"""decode, prefill and tn: the time of single decodes."""

from __future__ import annotations

from .contest import Contest, Settings, asking, progress
from .result import Result
from .roofline import add_roofline

DEFAULT_WIDTHS = (*range(1, 17), 24, 32, 48, 64)


def decode(settings: Settings) -> Result:
    """Tokens per second, one by one, behind `fill` tokens."""
    result = Result("decode", settings.model, unit="tokens per second")
    n, fill = settings.tokens, settings.fill
    result.settings.update(tokens=n, fill=fill)
    with Contest(settings, result) as contest:
        contest.open(need=fill + 1 + n)
        ids = contest.ids(fill + 1 + n)
        contest.choose("decode", ids[: fill + 1 + min(n, 16)], fill)
        ours, peers = contest.seconds("decode", asking("decode", ids=ids, fill=fill))
    result.add("tok_s", [n / s for s in ours], [n / s for s in peers], rates=True)
    result.publish()
    return result


def prefill(settings: Settings) -> Result:
    """Tokens per second of a prompt of `prompt_tokens` tokens into an empty memory."""
    result = Result("prefill", settings.model, unit="tokens per second")
    n = settings.prompt_tokens
    result.settings.update(prompt_tokens=n)
    with Contest(settings, result) as contest:
        contest.open(need=n)
        ids = contest.ids(n)
        contest.choose("prefill", ids)
        contest.ours.ask("prefill", ids=ids)
        ours, peers = contest.seconds("prefill", asking("prefill", ids=ids))
    result.add("tok_s", [n / s for s in ours], [n / s for s in peers], rates=True)
    result.publish()
    return result


def tn(settings: Settings) -> Result:
    """T(n): milliseconds to decode n tokens together with all their logits, behind `fill` tokens."""
    result = Result("tn", settings.model, unit="milliseconds")
    widths, fill = settings.widths or DEFAULT_WIDTHS, settings.fill
    result.settings.update(fill=fill)
    with Contest(settings, result) as contest:
        longest = fill + max(widths)
        contest.open(n_outputs=max(64, *widths), need=max(longest, fill + 16))
        ids = contest.ids(max(longest, fill + 16))
        contest.choose("tn", ids, fill)
        for worker in (contest.ours, contest.peer):
            if worker is not None:
                worker.ask("hold", ids=ids[:fill])
        for n in widths:
            row = ids[fill : fill + n]
            ours, peers = contest.seconds(f"tn: n = {n}", asking("width", ids=row))
            result.add(str(n), [1e3 * s for s in ours], [1e3 * s for s in peers], rates=False)
    result.publish()
    progress("tn: roofline")
    add_roofline(result, contest.model)
    return result
