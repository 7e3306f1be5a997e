"""Conversations that do not fit into the context: which messages are left out.

A conversation is the messages in front (system), then turns: a user's message with everything up to the next one
(the answer, calls of tools and their results). Turns leave as a whole, oldest first; the messages in front and the
last turn always stay.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspec.drafters.base import common_prefix
from pyspec.errors import OptionError, PyspecError

log = logging.getLogger("pyspec")

#: Values of the option `overflow` of LLM.chat.
OVERFLOW = ("error", "drop_oldest")

_FRONT = ("system", "developer")

Messages = Sequence[Mapping[str, Any]]
#: Messages to the token ids of their prompt.
Render = Callable[[Messages], list[int]]


def answer_reserve(reserve: int | None, max_tokens: int | None, n_ctx: int) -> int:
    """Tokens to leave free for the answer: what was asked for, else max_tokens, at most a quarter of the context."""
    if reserve is None:
        return n_ctx // 4 if max_tokens is None else min(max_tokens, n_ctx // 4)
    if isinstance(reserve, bool) or not isinstance(reserve, int) or not 0 <= reserve < n_ctx:
        raise OptionError(
            f"reserve must be a whole number from 0 to n_ctx - 1 = {n_ctx - 1}, not {reserve!r}"
        )
    return reserve


def check_overflow(overflow: str, reserve: int | None) -> None:
    """OptionError for unknown values, and for a reserve that nothing would look at."""
    if overflow not in OVERFLOW:
        raise OptionError(f"overflow must be one of {', '.join(map(repr, OVERFLOW))}, not {overflow!r}")
    if reserve is not None and overflow != "drop_oldest":
        raise OptionError(f"reserve is an option of overflow='drop_oldest', and overflow is {overflow!r}")


def front_length(messages: Messages) -> int:
    """Number of messages in front of the conversation."""
    for i, message in enumerate(messages):
        if message.get("role") not in _FRONT:
            return i
    return len(messages)


def turn_starts(messages: Messages) -> list[int]:
    """Where each turn begins."""
    front = front_length(messages)
    return [i for i in range(front, len(messages)) if i == front or messages[i].get("role") == "user"]


def fit_conversation(messages: Messages, render: Render, room: int, *, drop: bool) -> tuple[list[int], int]:
    """Ids of the conversation and how many messages are left out: none, or with drop as many as it takes to have at
    most room tokens.
    """
    if not drop:
        return render(messages), 0
    ids, dropped = drop_oldest(messages, render, room)
    if dropped:
        log.info("a chat of %d messages does not fit: the oldest %d are left out", len(messages), dropped)
    return ids, dropped


def drop_oldest(messages: Messages, render: Render, room: int) -> tuple[list[int], int]:
    """Ids of the conversation without as few of the oldest turns as it takes to have at most room tokens, and the
    number of messages left out. When even the last turn has more, nothing else is left.
    """
    ids = render(messages)
    starts = turn_starts(messages)
    if len(ids) <= room or len(starts) < 2:
        return ids, 0
    front = messages[: starts[0]]

    def without(n_turns: int) -> list[int]:
        return render([*front, *messages[starts[n_turns] :]])

    low, high = (
        1,
        len(starts) - 1,
    )  # fewer turns have more tokens: the smallest number that fits, else the largest
    ids = without(high)
    while low < high:
        middle = (low + high) // 2
        shorter = without(middle)
        if len(shorter) <= room:
            high, ids = middle, shorter
        else:
            low = middle + 1
    return ids, starts[high] - starts[0]


def front_tokens(messages: Messages, ids: list[int], render_alone: Render) -> int:
    """How many tokens at the beginning of ids belong to the messages in front; 0 when that cannot be told.

    render_alone: without the header of an answer. Templates may refuse a conversation without a question.
    """
    front = messages[: front_length(messages)]
    if not front:
        return 0
    try:
        return common_prefix(render_alone(front), ids)
    except PyspecError:
        return 0
