"""The conversation: messages, commands, streaming, Ctrl-C, and what happens when the context is full.

Policy for a full context: the oldest exchanges are forgotten (a question and its answer together, never the system
message) until the answer has room, at most a quarter of the context, and a line says so (`overflow` of LLM.chat). The
answer itself may still run into the end of the context; then it is cut, a line says so, and the next turn makes room.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspec.cli.chat_input import COMMANDS, Reader
from pyspec.cli.common import one_line
from pyspec.cli.formats import FREE, Format, json_format
from pyspec.cli.output import (
    MAX_WIDTH,
    WordWrapper,
    bold,
    columns_table,
    dim,
    plural,
    printable,
    terminal_width,
)
from pyspec.cli.session import consume, interrupt_cancels
from pyspec.cli.statistics import answer_line, print_stats
from pyspec.cli.stats_table import LABEL, fold, row, session_lines, session_summary, stats_lines
from pyspec.drafters.registry import DrafterSpec, parse_drafters
from pyspec.errors import CancelledError, ContextFullError, PyspecError, TemplateError


@dataclass
class Exchange:
    """A question and what was said to it."""

    question: str
    answer: str


class ChatLoop:
    """One conversation with one LLM. options: those of LLM.chat (sampling, max_tokens).

    has_draft: a draft file was given, so that drafters which need one can be chosen. answer_format: what answers follow at
    first. stats: what to print after each answer: None (a line), "table", or "json" (on stderr).
    """

    def __init__(
        self,
        llm: Any,
        reader: Reader,
        options: dict[str, Any],
        *,
        system: str | None = None,
        has_draft: bool = False,
        answer_format: Format = FREE,
        stats: str | None = None,
    ) -> None:
        self.llm = llm
        self.has_draft = has_draft
        self.reader = reader
        self.options = options
        self.system = system
        self.exchanges: list[Exchange] = []
        self.format = answer_format
        self.stats = stats
        self.last: Any = None

    def run(self, name: str) -> None:
        """Read and answer until the input ends or the user leaves."""
        self._say(f"{name} · context {plural(self.llm.n_ctx, 'token')} · drafters: {self._drafters()}")
        self._say("/help lists the commands · Ctrl-C stops an answer · Ctrl-D leaves")
        while True:
            if sys.stdout.isatty():
                print(flush=True)
            try:
                text = self.reader.read()
            except KeyboardInterrupt:
                self._say("(Ctrl-D or /quit leaves)")
                continue
            if text is None:
                break
            if _is_command(text):
                if not self._command(text):
                    break
            elif text:
                self._turn(text)

    # -------------------------------------------------------------------------------------------------------- answering

    def _turn(self, question: str) -> None:
        shown: list[str] = []
        result = None
        try:
            result = self._answer(question, shown)
        except (KeyboardInterrupt, CancelledError):
            pass  # stopped before there was a result; what was shown counts
        except ContextFullError as error:
            self._end_line()
            self._say(f"this message does not fit: {error}")
            return
        except PyspecError as error:
            if isinstance(error, TemplateError) and not self.exchanges:
                raise  # it will not work for the next message either, and nothing is lost
            self._end_line()
            self._say(f"no answer: {error}")
            return
        self._end_line()
        answer = result.text if result is not None else "".join(shown)
        if result is not None:
            self.last = result
            width = terminal_width() if sys.stdout.isatty() else 10_000
            for line in fold(answer_line(result).split(" · "), " · ", width):
                self._say(line)
            if self.stats == "json":
                print_stats("json", result, self.llm.session_stats)
            elif self.stats is not None:
                self._show_table(stats_lines(result))
            self._forget(result.dropped_messages // 2)
            if result.finish_reason == "length" and result.usage.total >= self.llm.n_ctx - 1:
                self._say(
                    f"(the context of {self.llm.n_ctx} tokens is full; the next turn forgets the oldest exchanges)"
                )
        else:
            self._say("stopped")
        if not answer:
            return  # stopped at once: as if it had not been asked
        self.exchanges.append(Exchange(question, answer))

    def _answer(self, question: str, shown: list[str]) -> Any:
        wrapper = WordWrapper(self._write, lambda: min(terminal_width(), MAX_WIDTH))
        terminal = sys.stdout.isatty()
        wrapped = terminal and not self.format.active  # a line break in a string would spoil JSON

        def show(text: str) -> None:
            shown.append(text)
            if wrapped:
                wrapper.feed(printable(text))
            else:
                self._write(printable(text) if terminal else text)
            sys.stdout.flush()

        try:
            with interrupt_cancels(self.llm.cancel):
                chunks = self.llm.chat(
                    self._messages(question),
                    stream=True,
                    overflow="drop_oldest",
                    **self.options,
                    **self.format.options,
                )
                return consume(chunks, show)
        finally:
            wrapper.finish()

    def _messages(self, question: str) -> list[dict[str, Any]]:
        messages = [] if self.system is None else [{"role": "system", "content": self.system}]
        for exchange in self.exchanges:
            messages.append({"role": "user", "content": exchange.question})
            messages.append({"role": "assistant", "content": exchange.answer})
        return [*messages, {"role": "user", "content": question}]

    # ------------------------------------------------------------------------------------------------------ full context

    def _forget(self, n: int) -> None:
        """The oldest n exchanges had no room any more."""
        if n:
            del self.exchanges[:n]
            self._say(
                f"(context of {self.llm.n_ctx} tokens is full: the {plural(n, 'oldest exchange')} "
                f"{'was' if n == 1 else 'were'} forgotten; /reset starts afresh)"
            )

    # ---------------------------------------------------------------------------------------------------------- commands

    def _command(self, text: str) -> bool:
        """Run one command; False means leave."""
        name, _, argument = text.partition(" ")
        argument = argument.strip()
        if name in ("/quit", "/exit", "/bye"):
            return False
        if name == "/help":
            self._help()
        elif name == "/stats":
            self._stats(argument)
        elif name == "/reset":
            self.exchanges.clear()
            self._say("conversation forgotten")
        elif name == "/system":
            self._set_system(argument)
        elif name == "/drafters":
            self._set_drafters(argument)
        elif name == "/format":
            self._set_format(argument)
        else:
            close = difflib.get_close_matches(name, [command[0] for command in COMMANDS], n=1)
            self._say(
                f"unknown command {name}" + (f", did you mean {close[0]}?" if close else "; /help lists them")
            )
        return True

    def _help(self) -> None:
        rows = [[f"{name} {arguments}".strip(), meaning] for name, arguments, meaning in COMMANDS]
        rows.append(["Alt-Enter", "a line break inside a message"])
        rows.append(["Ctrl-C", "stops the answer; what was said so far is kept"])
        for line in columns_table(rows):
            self._say(line)

    def _stats(self, which: str) -> None:
        if which not in ("", "session"):
            self._say(f"/stats shows the last answer, /stats session all of them; {which!r} is neither")
            return
        if self.last is None:
            self._say("no answer yet")
            return
        session = self.llm.session_stats
        if which:
            self._show_table(session_lines(session))
            return
        self._show_table(stats_lines(self.last))
        self._show_table(["", *session_summary(session)])
        used = self.last.usage.total
        share = f"{100 * used / self.llm.n_ctx:.0f} %"
        self._show_table(row("context", [f"{used} of {self.llm.n_ctx} tokens ({share})"]))
        if session.generations > 1:
            self._say("/stats session has the whole table of all answers")

    def _set_system(self, text: str) -> None:
        if text:
            self.system = None if text == "-" else text
        self._say("no system message" if self.system is None else f"system message: {self.system}")

    def _set_format(self, text: str) -> None:
        if text in ("off", "none"):
            self.format = FREE
        elif text:
            try:
                self.format = json_format(text, bool(self.format.options.get("grammar_whitespace")))
            except PyspecError as error:
                self._say(one_line(str(error)))
                return
        self._say(f"format: {self.format.shown}")

    def _set_drafters(self, text: str) -> None:
        if text == "default":
            self.options.pop("drafters", None)
        elif text:
            try:
                wanted = parse_drafters(text)
            except PyspecError as error:
                self._say(str(error))
                return
            needy = [
                spec.name for spec in wanted if isinstance(spec, DrafterSpec) and spec.kind.needs_draft_model
            ]
            if needy and not self.has_draft:
                self._say(f"{needy[0]} needs a draft model: start again with --draft MODEL")
                return
            self.options["drafters"] = text
        self._say(f"drafters: {self._drafters()}")

    def _drafters(self) -> str:
        chosen = self.options.get("drafters")
        return str(chosen) if chosen is not None else ", ".join(self.llm.describe()["drafters"]) or "none"

    # ------------------------------------------------------------------------------------------------------------ output

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        self._at_line_start = text.endswith("\n")

    _at_line_start = True

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._write("\n")
        sys.stdout.flush()

    def _show_table(self, lines: Iterable[str]) -> None:
        """Lines that begin with a label, which stands out."""
        self._end_line()
        for line in lines:
            label, rest = line[:LABEL], line[LABEL:]
            text = bold(printable(label)) + printable(rest)
            print(text, file=sys.stdout if sys.stdout.isatty() else sys.stderr, flush=True)

    def _say(self, text: str) -> None:
        """A line about the conversation; not part of it, so it stays out of a pipe."""
        self._end_line()
        print(dim(printable(text)), file=sys.stdout if sys.stdout.isatty() else sys.stderr, flush=True)


def _is_command(text: str) -> bool:
    """A known command, or one line that looks like one; a pasted file that begins with a slash is a message."""
    word = text.split(maxsplit=1)[0] if text else ""
    known = {command[0] for command in COMMANDS}
    return word in known or ("\n" not in text and re.fullmatch(r"/[a-z-]+", word) is not None)
