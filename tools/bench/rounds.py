"""round: what a round costs beside the backend's work.

Wall time from one question to the drafter to the next, minus the time the backend computed as the core reports it. Everything
else counts: building graphs, Python, choosing tokens, collecting the answer. The drafter is free and always right, with drafts
of 0 to 8 tokens. No peer.
"""

from __future__ import annotations

from .contest import Contest, Settings, progress
from .process import BenchError
from .result import Result
from .stats import quantile, summary
from .workloads import PROMPTS

LONGEST = 8


def rounds(settings: Settings) -> Result:
    """`repeat` times each prompt of the chosen kinds, `tokens` tokens each."""
    result = Result("round", settings.model, unit="microseconds beside the backend")
    overhead: list[float] = []
    wall: list[float] = []
    n_drafted = n_accepted = 0
    with Contest(settings, result) as contest:
        opened = contest.ours.ask(
            "open_llm",
            path=str(settings.path),
            threads=settings.threads,
            n_ctx=settings.n_ctx,
            controller="fixed",
        )
        contest.opened(opened, 0)
        prompts = contest.ours.ask(
            "chat_ids", messages=[text for kind, text in PROMPTS if kind in settings.kinds]
        )
        for turn in range(settings.repeat):
            for place, ids in enumerate(prompts["ids"]):
                progress(
                    f"round: {turn + 1} of {settings.repeat}, prompt {place + 1} of {len(prompts['ids'])}"
                )
                run = contest.ours.ask(
                    "rounds", ids=ids, max_tokens=settings.tokens, longest=LONGEST, seed=100 * turn + place
                )
                if not run["same_text"] or run["drafted"] != run["accepted"]:
                    raise BenchError(
                        f"a draft that repeats the plain answer was refused ({run['accepted']} of {run['drafted']} "
                        "accepted): this model's verification differs from its plain decoding"
                    )
                overhead += [w - c for w, c in zip(run["wall"], run["compute"], strict=True)]
                wall += run["wall"]
                n_drafted += run["drafted"]
                n_accepted += run["accepted"]
    if not overhead:
        raise BenchError("the answers were too short for a single round; try other --kinds or more --tokens")
    result.settings.update(tokens=settings.tokens, longest=LONGEST, kinds=list(settings.kinds))
    result.pyspec = {
        "median_us": quantile(overhead, 0.5),
        "p95_us": quantile(overhead, 0.95),
        "wall_us": quantile(wall, 0.5),
        "rounds": len(overhead),
        "drafted": n_drafted,
        "accepted": n_accepted,
    }
    result.spread["pyspec"]["median_us"] = summary(overhead)
    return result
