"""The drafters of one LLM: makes them on demand, keeps them for later calls, owns the draft model."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyspec.drafters.base import Drafter
from pyspec.drafters.corpus_file import read_corpus
from pyspec.drafters.pair import compare_vocabularies
from pyspec.drafters.registry import DrafterParts, DrafterSpec
from pyspec.errors import OptionError, OutOfMemoryError
from pyspec.speculation.chain import Chain

if TYPE_CHECKING:
    from pyspec.core.model import Model
    from pyspec.drafters.corpus_file import Corpus
    from pyspec.llm.backend import Backend

#: The draft context catches up with the prompt in calls of this many tokens, computed this many at a time.
#: Small: its buffers should cost a fraction of the target's.
DRAFT_BATCH = 512
DRAFT_UBATCH = 64


class DrafterSet:
    """Drafters by name and options. Those it made are closed with it, and so are objects that were given to
    keep (`adopt`); objects given for one call stay their owner's.

    context_options: keyword arguments shared with the target context (n_ctx, n_threads).
    open_model(path): opens the draft model. corpora: files for drafters that copy from fixed texts; read here.
    """

    def __init__(
        self,
        backend: Backend,
        target: Model,
        draft_path: str | os.PathLike[str] | None,
        *,
        open_model: Callable[[str | os.PathLike[str]], Model],
        n_ctx: int,
        n_threads: int,
        corpora: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        self._backend = backend
        self._target = target
        self._draft_path = draft_path
        self._open_model = open_model
        self._n_ctx = n_ctx
        self._n_threads = n_threads
        self._made: dict[str, Drafter] = {}
        self._chains: dict[str, Chain] = {}
        self._adopted: list[Drafter] = []
        self._kept: Sequence[DrafterSpec | Drafter] | None = None
        self._kept_chain: Chain | None = None
        self.draft_model: Any | None = None
        self._borrowed = False
        self._corpora = self._read_corpora(corpora)

    def chain(self, wanted: Sequence[DrafterSpec | Drafter]) -> Chain:
        """A chain of these drafters, with the options of the request. The same request gives the same chain again, so
        the drafters' memory is reused; requests that differ in the options of a draft model's drafter share its context.
        """
        drafters = [self._drafter(item) if isinstance(item, DrafterSpec) else item for item in wanted]
        if wanted is self._kept and self._kept_chain is not None:
            return self._kept_chain
        key = ";".join(str(item) if isinstance(item, DrafterSpec) else "" for item in wanted)
        if key and key in self._chains:
            return self._chains[key]
        chain = Chain(drafters, self._target.info.n_vocab)
        if all(isinstance(item, DrafterSpec) for item in wanted):
            self._chains[key] = chain  # one with objects is made anew: it must not keep them alive
        elif wanted is self._kept:
            self._kept_chain = chain
        return chain

    def adopt(self, wanted: Sequence[DrafterSpec | Drafter]) -> None:
        """Close the objects among these, too, in the end. `chain` gives this very request the same chain every time."""
        self._kept = wanted
        self._adopted += [item for item in wanted if not isinstance(item, DrafterSpec)]

    def require_draft_file(self, wanted: Sequence[DrafterSpec | Drafter]) -> None:
        """OptionError when one of these needs a draft model and no file was given. Opens nothing."""
        check_draft_file(wanted, self._draft_path)

    def draft_contexts(self) -> list[Any]:
        """Contexts on the draft model that exist now."""
        return [drafter.context for drafter in self._made.values() if hasattr(drafter, "context")]

    def forget(self) -> None:
        """Text of earlier conversations leaves the drafters that remember it."""
        for drafter in self._made.values():
            if hasattr(drafter, "forget"):
                drafter.forget()

    def close(self) -> None:
        for drafter in (*self._made.values(), *self._adopted):
            drafter.close()
        self._adopted.clear()
        self._chains.clear()
        self._made.clear()
        self._kept = self._kept_chain = None
        if self.draft_model is not None and not self._borrowed:
            self.draft_model.close()
        self.draft_model = None

    def _drafter(self, spec: DrafterSpec) -> Drafter:
        configure = spec.kind.configure
        key = str(spec) if configure is None else spec.name
        if key not in self._made:
            self._made[key] = spec.kind.build(
                spec.values(),
                DrafterParts(
                    n_vocab=self._target.info.n_vocab,
                    draft_context=self._draft_context,
                    is_end=self._target.is_eog,
                    choose=self._backend.draft_choice,
                    draft_cost=self._draft_cost,
                    end_tokens=frozenset(self._target.vocab.eog),
                ),
            )
            for corpus in self._corpora if hasattr(self._made[key], "add_corpus") else ():
                self._made[key].add_corpus(corpus)  # type: ignore[attr-defined]
        elif configure is not None:
            configure(self._made[key], spec.values())
        return self._made[key]

    def _read_corpora(self, paths: Sequence[str | os.PathLike[str]]) -> list[Corpus]:
        if isinstance(paths, (str, bytes, os.PathLike)):
            raise OptionError(f"corpora takes a list of files, not {paths!r}")
        return [read_corpus(path, self._target.vocab) for path in paths]

    def _draft_context(self) -> Any:
        model = self._opened_draft_model()
        options: dict[str, Any] = {
            "n_ctx": self._n_ctx,
            "n_batch": min(DRAFT_BATCH, self._n_ctx),
            "n_ubatch": min(DRAFT_UBATCH, self._n_ctx),
            "n_outputs": 1,
            "n_threads": self._n_threads,
        }
        report = self._backend.memory_estimate(model, **options)
        need = report.cache_bytes + report.compute_bytes + report.output_bytes
        if need > report.available_bytes:
            raise OutOfMemoryError(
                f"the draft context needs {need / 2**20:.0f} MiB for n_ctx={self._n_ctx}, "
                f"{report.available_bytes / 2**20:.0f} MiB are available"
            )
        return self._backend.Context(model, **options)

    def _draft_cost(self) -> float | None:
        """Decoding reads all weights: so the files' sizes tell about the times."""
        if self.draft_model is None:
            return None
        return float(self.draft_model.info.weight_bytes) / max(1, self._target.info.weight_bytes)

    def _opened_draft_model(self) -> Any:
        if self.draft_model is None:
            path = self._draft_path
            if path is None:
                raise OptionError("this drafter needs a draft model: pass draft=FILE")
            if _same_file(path, self._target.path):
                self.draft_model, self._borrowed = self._target, True
                return self._target
            model = self._open_model(path)
            try:
                compare_vocabularies(
                    self._target.vocab, model.vocab, os.fspath(self._target.path), os.fspath(path)
                ).require()
            except BaseException:
                model.close()
                raise
            self.draft_model = model
        return self.draft_model


def check_draft_file(wanted: Sequence[DrafterSpec | Drafter], draft: object) -> None:
    """OptionError when a drafter among these needs a draft model and there is no file."""
    for item in wanted:
        needs = item.kind.needs_draft_model if isinstance(item, DrafterSpec) else False
        if needs and draft is None:
            raise OptionError(f"drafter '{item.name}' needs a draft model: pass draft=FILE")


def _same_file(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> bool:
    try:
        return os.path.samefile(a, b)
    except OSError:
        return os.fspath(a) == os.fspath(b)
