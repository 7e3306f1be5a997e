"""acceptance: how many tokens of a draft model's drafts are accepted, by temperature and way of drafting. No peer.

Answers to the workload prompts, sampled from the target without filters but the temperature; drafts of fixed length. Three
ways: the draft's best candidate judged by sample-and-match, the target's own draw made on the draft's probabilities
(coupled, what pyspec does), and a draw of the draft's own judged by rejection sampling. Counts depend on no clock.
"""

from __future__ import annotations

from .contest import Contest, Settings, progress
from .process import BenchError
from .result import Result
from .workloads import PROMPTS

TEMPERATURES = (0.5, 0.8, 1.0)
#: Way of drafting: options of draft-simple, and of the call.
WAYS = {
    "arg-max": ("coupled=0", "match"),
    "coupled": ("coupled=1", "match"),
    "rejection": ("coupled=1", "rejection"),
}


def acceptance(settings: Settings) -> Result:
    """`repeat` seeds of every prompt of the chosen kinds, `tokens` tokens each. BenchError without a draft model."""
    if settings.draft is None:
        raise BenchError("acceptance needs a draft model: --draft MODEL")
    result = Result("acceptance", settings.model, unit="accepted tokens by drafted tokens")
    n_draft = settings.n_draft or 3
    chosen = [(kind, text) for kind, text in PROMPTS if kind in settings.kinds]
    result.settings.update(tokens=settings.tokens, draft=settings.draft_name, n_draft=n_draft)
    with Contest(settings, result) as contest:
        opened = contest.ours.ask(
            "open_llm",
            path=str(settings.path),
            threads=settings.threads,
            n_ctx=settings.n_ctx,
            draft=str(settings.draft),
            drafters="none",
            controller="fixed",
        )
        contest.opened(opened, 0)
        prompts = contest.ours.ask("chat_ids", messages=[text for _, text in chosen])["ids"]
        for temperature in TEMPERATURES:
            for way, (option, rule) in WAYS.items():
                entry = dict.fromkeys(("drafted", "accepted", "verifications", "emitted"), 0)
                for seed in range(settings.repeat):
                    for place, ids in enumerate(prompts):
                        progress(
                            f"acceptance: temperature {temperature}, {way}, {chosen[place][0]}, seed {seed}"
                        )
                        answer = contest.ours.ask(
                            "sampled",
                            ids=ids,
                            max_tokens=settings.tokens,
                            temperature=temperature,
                            seed=seed,
                            drafters=f"draft-simple:n_draft={n_draft},p_min=0,{option}",
                            acceptance=rule,
                        )
                        for key in entry:
                            entry[key] += answer[key]
                result.pyspec[f"{temperature} {way}"] = {
                    **entry,
                    "acceptance": entry["accepted"] / max(1, entry["drafted"]),
                    "length": 1 + entry["accepted"] / max(1, entry["verifications"]),
                }
    return result
