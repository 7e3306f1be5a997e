"""How a verb reads its words and shows its help: options in groups, and `--stats` with an optional value."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

#: Of a verb's help, in this order; other panels follow.
SECTIONS = (
    "Arguments", "Options", "Output", "Structured output", "Speculation", "Sampling", "Repetition", "Model and memory",
)  # fmt: skip
#: `--stats` alone means the first of these.
STATS_FORMS = ("table", "json")


class Verb(TyperCommand):
    """A command whose plain help has a section per panel (`rich_help_panel` of its options)."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As usual, after `--stats` and `--stats json` became `--stats=table` and `--stats=json`."""
        if any("--stats" in parameter.opts for parameter in self.params):
            args = with_stats_value(args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, options without a panel, then the panels."""
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in SECTIONS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            panel = getattr(parameter, "rich_help_panel", None)
            plain = "Arguments" if parameter.param_type_name == "argument" else "Options"
            sections.setdefault(panel or plain, []).append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def with_stats_value(words: list[str]) -> list[str]:
    """The words with the value of `--stats` attached to it; behind `--` nothing is an option."""
    found: list[str] = []
    for at, word in enumerate(words):
        if found and found[-1] == "--stats":
            found[-1] = f"--stats={word if word in STATS_FORMS else STATS_FORMS[0]}"
            if word in STATS_FORMS:
                continue
        if word == "--":
            return found + words[at:]
        found.append(word)
    if found and found[-1] == "--stats":
        found[-1] = f"--stats={STATS_FORMS[0]}"
    return found
