"""Do a target and a draft model speak the same vocabulary? A report that says which rule failed, and why.

Rules, all of which must hold (those of llama.cpp's draft check): same tokenizer kind; same add-BOS flag, and
same BOS id when it is set; same add-EOS flag, and same EOS id when it is set; sizes at most 128 apart
(padding); the same text for every id from 5 up to the smaller size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspec.errors import PairMismatchError

if TYPE_CHECKING:
    from pyspec.core.model import Model
    from pyspec.core.vocab import Vocab


#: Sizes may differ by this many padding tokens.
MAX_SIZE_DIFFERENCE = 128
#: Ids below this may carry different texts: conversions disagree about the first special tokens.
FIRST_COMPARED_ID = 5


@dataclass(frozen=True, slots=True)
class RuleFailure:
    """One rule that does not hold, with both values; token_id is the first id that differs, for the text
    rule.
    """

    rule: str
    target: str
    draft: str
    token_id: int | None = None

    def __str__(self) -> str:
        where = "" if self.token_id is None else f" at id {self.token_id}"
        return f"{self.rule}{where}: target {self.target}, draft {self.draft}"


@dataclass(frozen=True, slots=True)
class PairReport:
    """Result of `check_pair`. ok when failures is empty."""

    target: str
    draft: str
    failures: tuple[RuleFailure, ...]

    @property
    def ok(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        if self.ok:
            return f"{self.draft} can draft for {self.target}"
        lines = "\n".join(f"  - {failure}" for failure in self.failures)
        return (
            f"{self.draft} cannot draft for {self.target}:\n{lines}\n"
            "Drafting across vocabularies is not offered; drafters that need no draft model, such as "
            "ngram-simple, work with every target."
        )

    def require(self) -> None:
        """Raise PairMismatchError with the whole report unless the pair fits."""
        if not self.ok:
            raise PairMismatchError(str(self))


def check_pair(
    target: Model | str | os.PathLike[str],
    draft: Model | str | os.PathLike[str],
    *,
    open_model: Callable[..., Any] | None = None,
) -> PairReport:
    """Compare the vocabularies of two models or files. Files are opened without their weights.

    open_model(path, metadata_only=True) replaces the class that opens files (tests).
    Errors: those of opening a model. A misfit is a report, not an error.
    """
    opened: list[Any] = []
    try:
        sides = []
        for side in (target, draft):
            if isinstance(side, (str, os.PathLike)):
                side = (open_model or _core_model())(side, metadata_only=True)
                opened.append(side)
            sides.append(side)
        return compare_vocabularies(sides[0].vocab, sides[1].vocab, str(sides[0].path), str(sides[1].path))
    finally:
        for model in opened:
            model.close()


def _core_model() -> Callable[..., Any]:
    from pyspec.core.model import Model

    return Model  # type: ignore[no-any-return,unused-ignore]


def compare_vocabularies(target: Vocab, draft: Vocab, target_name: str, draft_name: str) -> PairReport:
    """The rules themselves, on two vocabularies."""
    failures: list[RuleFailure] = []

    def expect_equal(rule: str, a: object, b: object) -> bool:
        if a != b:
            failures.append(RuleFailure(rule, str(a), str(b)))
        return a == b

    expect_equal("tokenizer kind", target.kind, draft.kind)
    if expect_equal("add BOS", target.add_bos, draft.add_bos) and target.add_bos:
        expect_equal("BOS id", target.bos, draft.bos)
    if expect_equal("add EOS", target.add_eos, draft.add_eos) and target.add_eos:
        expect_equal("EOS id", target.eos, draft.eos)
    n_target, n_draft = len(target.texts), len(draft.texts)
    if abs(n_target - n_draft) > MAX_SIZE_DIFFERENCE:
        failures.append(
            RuleFailure(f"vocabulary size (at most {MAX_SIZE_DIFFERENCE} apart)", str(n_target), str(n_draft))
        )
    first = _first_difference(target.texts, draft.texts)
    if first is not None:
        failures.append(
            RuleFailure("token text", _shown(target.texts[first]), _shown(draft.texts[first]), token_id=first)
        )
    return PairReport(target_name, draft_name, tuple(failures))


def _first_difference(a: Sequence[bytes], b: Sequence[bytes]) -> int | None:
    n = min(len(a), len(b))
    if list(a[FIRST_COMPARED_ID:n]) == list(b[FIRST_COMPARED_ID:n]):
        return None
    return next(i for i in range(FIRST_COMPARED_ID, n) if a[i] != b[i])


def _shown(text: bytes) -> str:
    return repr(text.decode("utf-8", "backslashreplace"))
