"""Token ids of prompts, with exactly one beginning-of-sequence token where the model wants one."""

from __future__ import annotations

from typing import Any

from pyspec.errors import OptionError


def prompt_ids(model: Any, prompt: Any, parse_special: bool) -> list[int]:
    """Ids of a prompt given as text, bytes or ids. Ids are taken as they are."""
    if isinstance(prompt, (str, bytes)):
        ids: list[int] = model.tokenizer.encode(prompt, add_special=True, parse_special=parse_special)
        bos = model.vocab.bos
        if len(ids) > 1 and bos >= 0 and ids[0] == ids[1] == bos:
            del ids[0]  # the text began with it and the tokenizer added another
    else:
        try:
            ids = [int(token) for token in prompt]
        except (TypeError, ValueError):
            raise OptionError(
                f"prompt must be str, bytes or a sequence of token ids, not {type(prompt).__name__}"
            ) from None
        n_vocab = model.info.n_vocab
        for token in ids:
            if not 0 <= token < n_vocab:
                raise OptionError(f"token id {token} is outside this model's vocabulary of {n_vocab}")
    if not ids:
        raise OptionError("the prompt has no tokens")
    return ids


def chat_ids(model: Any, rendered: str) -> list[int]:
    """Ids of a rendered chat template. The template's own BOS stays; one is added only when the model adds it
    and the template did not write it."""
    ids: list[int] = model.tokenizer.encode(rendered, add_special=False, parse_special=True)
    bos = model.vocab.bos
    if model.vocab.add_bos and bos >= 0 and (not ids or ids[0] != bos):
        ids.insert(0, bos)
    if not ids:
        raise OptionError("the chat template gave an empty prompt")
    return ids
