"""One generation's place in its grammar: masks, cutting drafts, committing."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from pyspec.core.tokenizer import make_tokenizer
from pyspec.core.vocab import TokenType
from pyspec.errors import GrammarError, PyspecError, UnsupportedError
from pyspec.llm.grammar import Grammar, GrammarCompiler, GrammarState
from tests.grammar.conftest import FAMILIES, compiler_for
from tests.grammar.helpers import Spy, accepts, allowed, byte_tokens, fed, spell
from tests.tokenizers.tiny_vocabs import bpe_vocab, spm_vocab

#: A finite language, so that masks can be computed by hand. Some texts begin others; one has characters of two bytes.
TEXTS = ["the cat", "the cat sat", "then", " the", "to", "t", "naïve", "nact", "\nline", "{x:1}", "{x:10}"]
FINITE = Grammar.lark(
    '%llguidance {"no_forcing": true}\nstart: '
    + " | ".join('"' + t.replace("\n", "\\n") + '"' for t in TEXTS)
)
CLOSED = Grammar.json_schema(
    {
        "type": "object",
        "properties": {"name": {"enum": ["cat", "catalogue"]}, "ok": {"type": "boolean"}},
        "required": ["name", "ok"],
        "additionalProperties": False,
    }
)
CLOSED_TEXT = '{"name":"catalogue","ok":true}'


def tokens_of(state: GrammarState, text: str) -> list[int]:
    return state.vocabulary.encode(text.encode())


def expected_mask(state: GrammarState, prefix: bytes) -> set[int]:
    texts = [text.encode() for text in TEXTS]
    found = set(state.vocabulary.end_ids) if prefix in texts else set()
    for token in range(state.vocabulary.n_vocab):
        piece = state.vocabulary.piece(token)
        if (
            piece
            and token not in state.vocabulary.end_ids
            and any(t.startswith(prefix + piece) for t in texts)
        ):
            found.add(token)
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_masks_are_those_of_a_finite_language(
    compiler: Callable[..., GrammarCompiler], family: str, count_cases: Callable[[int], None]
) -> None:
    """Every bit of every mask along every text, token by token and byte by byte, on BPE and SPM vocabularies."""
    start = compiler(family).start(FINITE)
    n = 0
    for text in TEXTS:
        for tokens in (tokens_of(start, text), spell(start, text)):
            state, prefix = start.copy(), b""
            cut, masks = state.plan(tokens)
            assert cut == tokens
            for i, row in enumerate(masks):
                assert allowed(row) == expected_mask(state, prefix), (text, i)
                n += 32 * len(row)
                prefix += state.vocabulary.piece(tokens[i]) if i < len(tokens) else b""
    count_cases(n)


def test_padding_ids_are_never_allowed(compiler: Callable[..., GrammarCompiler]) -> None:
    """Rows of logits may be longer than the vocabulary; an anything-goes grammar stops where the tokenizer does."""
    tokenizer = compiler().vocabulary._tokenizer
    n = tokenizer.vocab.n_tokens
    for extra in (1, 31, 45):
        state = compiler_for(tokenizer, n + extra).start(Grammar.regex("(?s:.)*"))
        masks = state.plan([])[1]
        assert (
            masks.dtype == np.int32 and masks.shape == (1, -(-(n + extra) // 32)) and masks.flags.c_contiguous
        )
        ids = allowed(masks[0])
        assert max(ids) < n and len(ids) > 200
        assert state.vocabulary.end_ids <= ids


def test_control_tokens_are_no_text(compiler: Callable[..., GrammarCompiler]) -> None:
    """Only a Lark grammar that names one allows it. An end token in the middle has no meaning and is never allowed."""
    vocabulary = compiler().vocabulary
    texts = [bytes(t) for t in vocabulary._tokenizer.vocab.texts]
    start, end = texts.index(b"<|im_start|>"), texts.index(b"<|im_end|>")
    assert end in vocabulary.end_ids and start not in vocabulary.end_ids
    anything = compiler().start(Grammar.regex("(?s:.)+"))
    assert not allowed(anything.plan([])[1][0]) & {start, end}
    named = compiler().start(Grammar.lark('start: "a" <|im_start|> "b"'))
    named.commit(spell(named, "a"))
    assert allowed(named.plan([])[1][0]) == {start}
    named.commit([start])
    assert named.plan(spell(named, "b"))[0] == spell(named, "b")
    with pytest.raises(GrammarError, match="no token of this vocabulary"):
        ending = compiler().start(Grammar.lark('start: "a" <|im_end|> "b"'))
        ending.commit(spell(ending, "a"))
        ending.plan([])


def test_every_end_token_ends() -> None:
    """A model may have several end tokens: all are allowed at the end, none before, and each is understood."""
    vocab = bpe_vocab(
        [], [(f"<e{i}>", TokenType.CONTROL) for i in range(3)], eos=256, eog=frozenset({256, 258})
    )
    start = compiler_for(make_tokenizer(vocab)).start(Grammar.regex("a|ab"))
    assert start.vocabulary.end_ids == {256, 258}
    assert allowed(start.plan([])[1][0]) == {ord("a")}
    start.commit([ord("a")])
    assert allowed(start.plan([])[1][0]) == {ord("b"), 256, 258}
    for end in (256, 258):
        cut, masks = start.plan([end, ord("b")])
        assert cut == [end] and len(masks) == 2
        state = start.copy()
        state.commit([end])
        assert state.finished
    assert start.plan([257])[0] == []
    start.commit([ord("b")])
    assert start.finished and allowed(start.plan([])[1][0]) == {256, 258}


def test_no_end_token_no_grammar() -> None:
    with pytest.raises(UnsupportedError, match="no end token"):
        compiler_for(make_tokenizer(bpe_vocab([]))).start(Grammar.regex("a"))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "open"])
def test_an_end_token_at_every_index(
    compiler: Callable[..., GrammarCompiler], family: str, closed: bool
) -> None:
    """Closed grammars end at one place, open ones anywhere: a draft is cut before an end token that comes too early, and
    behind one that may stand there.
    """
    grammar = CLOSED if closed else Grammar.regex(r"[a-z\"{}:,]*")
    start = compiler(family).start(grammar)
    end = max(start.vocabulary.end_ids)
    spellings = [tokens_of(start, CLOSED_TEXT)]
    if not closed:
        spellings.append(spell(start, CLOSED_TEXT))
    for tokens in spellings:
        for at in range(len(tokens) + 1):
            draft = [*tokens[:at], end, *tokens[at:]]
            cut, masks = start.plan(draft)
            may_end = at == len(tokens) or not closed
            assert cut == [*tokens[:at], *([end] if may_end else [])]
            assert len(masks) == len(cut) + 1
            assert (end in allowed(masks[at])) == may_end
            state = start.copy()
            if may_end:
                state.commit(draft)  # what stands behind an end token does not count
                assert state.finished and state.accepting
                assert state.plan(tokens)[0] == state.plan([end])[0] == []
                assert allowed(state.plan([])[1][0]) == state.vocabulary.end_ids
                with pytest.raises(GrammarError, match="after the end"):
                    state.commit(tokens[:1])
            else:
                with pytest.raises(GrammarError, match="cannot end"):
                    state.commit(draft)


def test_drafts_are_cut_at_the_first_illegal_token(compiler: Callable[..., GrammarCompiler]) -> None:
    """Every place, every kind of wrong token; what is left keeps the masks of the whole."""
    start = compiler().start(CLOSED)
    right = tokens_of(start, CLOSED_TEXT)
    _, all_masks = start.plan(right)
    all_masks = all_masks.copy()
    control = start.vocabulary._tokenizer.vocab.bos
    for at in range(len(right) + 1):
        legal = allowed(all_masks[at])
        for wrong in ({ord("Z"), ord("\n"), control, start.vocabulary.n_vocab - 1} | set(right)) - legal:
            cut, masks = start.plan([*right[:at], wrong, *right[at:]])
            assert cut == right[:at]
            assert np.array_equal(masks, all_masks[: at + 1])


def test_planning_changes_nothing(compiler: Callable[..., GrammarCompiler]) -> None:
    """Invariant 25; C055 (anthony-chaudhary/fak#5271): whatever is planned, the state stays the one of the committed
    tokens: same masks, same forced bytes.
    """
    start = compiler().start(CLOSED)
    right = tokens_of(start, CLOSED_TEXT)
    rng = random.Random(3)
    for n in range(len(right) + 1):
        state = fed(start, right[:n])
        expected = state.fingerprint()
        for _ in range(4):
            at = rng.randint(0, len(right) - n)
            draft = right[n : n + at] + [
                rng.randrange(state.vocabulary.n_vocab) for _ in range(rng.randint(0, 3))
            ]
            state.plan(draft)
            state.forced_tokens(8)
            assert state.fingerprint() == expected
    assert len({fed(start, right[:n]).fingerprint() for n in range(len(right) + 1)}) > len(right) // 2


def test_an_illegal_commit_changes_nothing(compiler: Callable[..., GrammarCompiler]) -> None:
    """C056 (ggml-org/llama.cpp#18173, #13341): a token the grammar cannot take is a typed error, and what was made
    before goes on working.
    """
    start = compiler().start(CLOSED)
    right = tokens_of(start, CLOSED_TEXT)
    for at in range(len(right)):
        state = fed(start, right[:at])
        before = state.fingerprint()
        for wrong in (spell(state, " "), [*right[at:-1], *spell(state, "]")]):
            with pytest.raises(GrammarError, match=r"token \d+ \(b'"):
                state.commit(wrong)
            assert state.fingerprint() == before
        state.commit(right[at:])
        assert state.finished


@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_that_span_symbols(compiler: Callable[..., GrammarCompiler], family: str) -> None:
    """C056: one token may hold the end of one symbol of the grammar and the beginning of others."""
    compiled = compiler(family)
    vocabulary = compiled.vocabulary
    spans = [(token, vocabulary.piece(token)) for token in range(vocabulary.n_vocab)]
    spans = [
        (token, piece.decode())
        for token, piece in spans
        if len(piece) > 1 and piece.isascii() and piece.strip()
    ]
    assert len(spans) > 30
    for token, text in spans[::5]:
        half = len(text) // 2
        halves = f'a: {_quote(text[:half])}\nb: {_quote(text[half:])} | "q"'
        symbols = Grammar.lark(
            f'%llguidance {{"no_forcing": true}}\nstart: "x" a b c\n{halves}\nc: "!" | "?"'
        )
        state = compiled.start(symbols)
        draft = [*spell(state, "x"), token, *spell(state, "!")]
        cut, masks = state.plan(draft)
        assert cut == draft, text
        assert token in allowed(masks[1])
        state.commit(draft)
        assert state.finished


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


@pytest.mark.parametrize("family", FAMILIES)
def test_a_space_in_front_is_not_the_grammar(compiler: Callable[..., GrammarCompiler], family: str) -> None:
    """C056: models like to begin with a space; a grammar that begins with '{' forbids it, and nothing breaks."""
    state = compiler(family).start(Grammar.json_schema({"type": "object"}))
    space = spell(state, " {")
    assert state.plan(space)[0] == []
    assert all(state.vocabulary.piece(token).startswith(b"{") for token in allowed(state.plan([])[1][0]))
    with pytest.raises(GrammarError):
        state.commit(space)
    state.commit(spell(state, "{}"))
    assert state.finished


def test_a_vocabulary_that_cannot_spell_is_reported() -> None:
    """A text that no token can continue is an error of its own, and a draft that leads there is cut before."""
    vocab = spm_vocab([("a", -1.0), ("b", -2.0)], byte_tokens=False, eog=frozenset({2}))
    state = compiler_for(make_tokenizer(vocab)).start(Grammar.regex("a(b|cZ)|bb?Z"))
    a, b = (list(vocab.texts).index(text) for text in (b"a", b"b"))
    assert state.plan([a, b])[0] == [a, b]
    assert state.plan([b])[0] == [b] and state.plan([b, b])[0] == [b]
    state.commit([b, b])
    with pytest.raises(GrammarError, match="no token of this vocabulary can continue"):
        state.plan([])


@pytest.mark.parametrize(
    ("grammar", "reason"),
    [
        (Grammar.lark("start: a b"), "cannot be used"),
        (Grammar.lark('start: "a'), "cannot be used"),
        (Grammar.regex("(a"), "regex grammar cannot be used"),
        (Grammar.regex(r"a(?=b)"), "look-around"),
        (Grammar.json_schema({"type": "nonsense"}), "JSON schema cannot be used"),
        (Grammar.json_schema({"type": "object", "unevaluatedProperties": False}), "unevaluatedProperties"),
        (Grammar.json_schema({"enum": []}), "JSON schema cannot be used"),
        (Grammar.json_schema({"type": "string", "pattern": "("}), "JSON schema cannot be used"),
        (Grammar.json_schema({"$ref": "https://example.com/x"}), "JSON schema cannot be used"),
        (Grammar.gbnf("root ::= x"), "not defined"),
    ],
)
def test_bad_grammars_are_typed_errors(
    compiler: Callable[..., GrammarCompiler], grammar: Grammar, reason: str
) -> None:
    """C056: the library's reason in a GrammarError; the compiler works on."""
    with pytest.raises(GrammarError, match=reason):
        compiler().start(grammar)
    assert accepts(compiler().start(Grammar.regex("ok")), "ok")


def test_compiled_grammars_are_kept_and_not_shared(compiler: Callable[..., GrammarCompiler]) -> None:
    """Two generations of one grammar know nothing of each other, and only so many grammars are kept."""
    compiled = compiler_for(compiler().vocabulary._tokenizer)
    one, two = compiled.start(CLOSED), compiled.start(CLOSED)
    one.commit(tokens_of(one, CLOSED_TEXT))
    assert one.finished and not two.finished
    assert len(compiled._compiled) == 1
    for i in range(40):
        compiled.start(Grammar.regex(f"a{{{i}}}b"))
    assert len(compiled._compiled) == 16
    compiled.close()
    assert two.plan(spell(two, "{"))[0] == spell(two, "{")
    assert compiled.start(CLOSED).fingerprint() == two.fingerprint()


def test_whitespace_is_compact_unless_asked_for(compiler: Callable[..., GrammarCompiler]) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}
    compact = compiler().start(Grammar.json_schema(schema))
    loose = compiler().start(Grammar.json_schema(schema, whitespace=True))
    assert accepts(compact, '{"a":[1,2]}')
    for text in ('{"a": [1,2]}', '{ "a":[1,2]}', '{"a":[1, 2]}', '{\n  "a": [\n1,\t2]\n}'):
        assert not accepts(compact, text)
        assert accepts(loose, text)


def test_json_order_and_keywords(compiler: Callable[..., GrammarCompiler]) -> None:
    """Properties come in the order of the schema; what is required must be there; types are kept."""
    state = compiler().start(
        Grammar.json_schema(
            {
                "type": "object",
                "properties": {"b": {"type": "integer", "maximum": 99}, "a": {"enum": ["x", None, 3]}},
                "required": ["b"],
                "additionalProperties": False,
            }
        )
    )
    good = ['{"b":1}', '{"b":-7,"a":"x"}', '{"b":99,"a":null}', '{"b":0,"a":3}']
    bad = ["{}", '{"a":"x","b":1}', '{"b":100}', '{"b":1.5}', '{"b":1,"a":4}', '{"b":1,"c":1}', '{"b":"1"}']
    assert [text for text in good if not accepts(state, text)] == []
    assert [text for text in bad if accepts(state, text)] == []


def test_the_matcher_is_used_by_its_rules(compiler: Callable[..., GrammarCompiler]) -> None:
    """C054 (openvinotoolkit/openvino.genai#4081): no guess is consumed unasked, no end token is fed, and a finished
    matcher is asked nothing, wherever blocks end.
    """
    compiled = compiler()
    end = min(compiled.vocabulary.end_ids)
    for grammar in (
        CLOSED,
        Grammar.regex('[a-z"{}:,]*'),
        Grammar.regex("(a|b){0,30}"),
        Grammar.lark('start: ""'),
    ):
        template = compiled.start(grammar)
        tokens = [*tokens_of(template, CLOSED_TEXT), end, end, 7]
        for block in (1, 2, 3, 5, 16):
            log: list[str] = []
            state = GrammarState(
                Spy(template.copy()._matcher, compiled.vocabulary.end_ids, log)
                if not template.finished
                else _Stopped(),
                compiled.vocabulary,
            )
            at = 0
            while at < len(tokens):
                cut, _ = state.plan(tokens[at : at + block])
                if not cut:
                    break
                state.commit(cut)
                state.forced_tokens(4)
                state.fingerprint()
                at += len(cut)
            assert grammar != CLOSED or at == len(tokens) - 2


class _Stopped:
    """A matcher that is finished from the start and may not be asked for anything else."""

    def is_stopped(self) -> bool:
        return True


def test_one_row_costs_one_mask(compiler: Callable[..., GrammarCompiler]) -> None:
    """Without a draft nothing is copied and one mask is computed."""
    template = compiler().start(CLOSED)
    log: list[str] = []
    spy = Spy(template._matcher, template.vocabulary.end_ids, log)
    spy.deep_copy = None  # type: ignore[assignment,method-assign]
    state = GrammarState(spy, template.vocabulary)
    state.plan([])
    assert log == ["mask"]


def test_errors_are_pyspec_errors(compiler: Callable[..., GrammarCompiler]) -> None:
    """A grammar beyond the library's limits: at compile time or at a mask, the error is ours."""
    pattern = (
        "("
        + "|".join("".join(random.Random(i).choices("abcdef", k=12)) + "{3,400}" for i in range(40))
        + ")*"
    )
    with pytest.raises(PyspecError):
        state = compiler().start(Grammar.lark(f"start: (/({pattern})z/ | /({pattern}){{2,90}}y/)*"))
        for token in [byte_tokens(state.vocabulary)[ord(c)] for c in "abcdef" * 4]:
            row = state.plan([])[1][0]
            state.commit([token if token in allowed(row) else min(allowed(row))])
        raise GrammarError("the limits were not reached")
