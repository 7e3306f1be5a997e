"""Byte-level BPE on hand-made vocabularies: merging, odd vocabularies, BOS rules, broken text. No model files."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pyspec.core.tokenizer import make_tokenizer, supported_names
from pyspec.core.vocab import TokenType, unpack
from pyspec.errors import FileFormatError, OptionError, UnsupportedError
from tests.tokenizers.tiny_vocabs import bpe_vocab, token_id, token_texts

_ABC = ["a b", "ab c", "b c", "Ġ ab"]


def _texts(vocab, text, **options):
    return token_texts(vocab, make_tokenizer(vocab).encode(text, **options))


def test_merges_go_by_rank_and_leftmost_first():
    assert _texts(bpe_vocab(_ABC), "abc bc abab") == ["abc", "Ġ", "bc", "Ġab", "ab"]
    assert _texts(bpe_vocab(["a a"]), "aaaaa") == ["aa", "aa", "a"]
    assert _texts(bpe_vocab(["b c", "a b"]), "abc") == ["a", "bc"]


def test_of_equal_rules_the_first_one_counts():
    assert _texts(bpe_vocab(["a b", "b c", "a b"]), "abc") == ["ab", "c"]


def test_lines_that_are_no_rules_are_passed_over():
    vocab = bpe_vocab(_ABC)
    odd = bpe_vocab(_ABC)
    object.__setattr__(odd, "merges", [b"ab", b"a ", b"", *vocab.merges, b"\xff \xfe", b" x y"])
    assert make_tokenizer(odd).encode("abc abc") == make_tokenizer(vocab).encode("abc abc")


def test_a_byte_without_token_is_dropped_but_keeps_its_neighbours_apart():
    assert _texts(bpe_vocab(["a b"], without="x"), "axb ab") == ["a", "b", "Ġ", "ab"]


def test_a_merge_whose_result_is_no_token_is_spelled_with_its_ascii_characters():
    vocab = bpe_vocab(["a b", "ab c", "Ã ©", "a Ã©"], missing=("ab", "Ã©"))
    assert _texts(vocab, "abc ab") == ["abc", "Ġ", "a", "b"]
    assert _texts(vocab, "é") == []  # neither character of the merge result is one byte long
    assert _texts(vocab, "aé") == ["aÃ©"]


@pytest.mark.parametrize("missing", [(), ("bc",)])
def test_whole_words_win_only_where_the_pre_tokenizer_says_so(missing):
    merges = ["b c", "a b"]
    extra = [("abc", TokenType.NORMAL), ("Ġabc", TokenType.NORMAL)]
    no_bos = {"tokenizer.ggml.add_bos_token": False}
    whole = bpe_vocab(merges, extra, pre="llama-bpe", missing=missing, meta=no_bos)
    assert _texts(whole, "abc abc") == ["abc", "Ġabc"]
    expected = ["a", "bc", "Ġ", "a", "bc"] if not missing else ["a", "b", "c", "Ġ", "a", "b", "c"]
    assert _texts(bpe_vocab(merges, extra, pre="dbrx", missing=missing), "abc abc") == expected
    assert _texts(whole, "bc") == (["b", "c"] if missing else ["bc"])


def test_a_whole_word_must_be_a_token_not_just_the_result_of_a_merge():
    no_bos = {"tokenizer.ggml.add_bos_token": False}
    vocab = bpe_vocab(["b c", "a b", "ab c"], missing=("abc",), pre="llama-bpe", meta=no_bos)
    assert _texts(vocab, "abc") == ["a", "bc"]


def test_broken_bytes_become_one_replacement_character_each():
    tokenizer = make_tokenizer(bpe_vocab([]))
    assert tokenizer.decode(tokenizer.encode(b"a\xff\xe4\xbdz")) == "a\ufffd\ufffd\ufffdz".encode()
    assert (
        tokenizer.decode(tokenizer.encode(b"\xf4\x90\x80\x80")) == ("\ufffd" * 4).encode()
    )  # above U+10FFFF
    assert tokenizer.decode(tokenizer.encode(b"\xc1\xa1")) == b"a"  # over-long form of "a"


def test_lone_surrogates_keep_their_three_bytes():
    tokenizer = make_tokenizer(bpe_vocab(["í ł"]))
    ids = tokenizer.encode("x\ud83d y")
    assert ids == tokenizer.encode(b"x\xed\xa0\xbd y")
    assert tokenizer.decode(ids) == b"x\xed\xa0\xbd y"


def test_the_text_comes_back_whatever_it_is():
    tokenizer = make_tokenizer(bpe_vocab(_ABC))
    everything = "".join(chr(c) for c in range(0x3000)) + "\U0001f999  x \n\n ?! 's don 't"
    assert tokenizer.decode(tokenizer.encode(everything)) == everything.encode()
    assert tokenizer.encode("") == [] and tokenizer.encode(b"") == [] and tokenizer.decode([]) == b""


@pytest.mark.parametrize(
    ("pre", "meta", "add_bos"),
    [
        ("llama-bpe", {}, True),
        ("tekken", {}, True),
        ("llama-bpe", {"tokenizer.ggml.add_bos_token": False}, False),
        ("gpt-2", {}, False),
        ("gpt-2", {"tokenizer.ggml.add_bos_token": True}, True),
    ],
)
def test_bos_goes_by_the_key_then_the_pre_tokenizer_then_the_kind(pre, meta, add_bos):
    vocab = bpe_vocab(_ABC, [("<s>", TokenType.CONTROL)], pre=pre, meta=meta, bos=258)
    assert make_tokenizer(vocab).encode("a")[:1] == [258 if add_bos else token_id(vocab, "a")]
    assert make_tokenizer(vocab).encode("a", add_special=False) == [token_id(vocab, "a")]


def test_eos_is_added_at_the_end_when_the_file_says_so():
    vocab = bpe_vocab([], [("</s>", TokenType.CONTROL)], eos=256, add_eos=True)
    assert make_tokenizer(vocab).encode("a")[-1] == 256
    assert 256 not in make_tokenizer(vocab).encode("a", add_special=False)


def test_bos_that_is_wanted_but_missing_is_an_error_only_when_it_would_be_added():
    tokenizer = make_tokenizer(bpe_vocab([], pre="llama-bpe"))
    with pytest.raises(FileFormatError, match="BOS"):
        tokenizer.encode("a")
    assert tokenizer.encode("a", add_special=False)


def test_glm_has_a_bos_only_when_the_file_names_one():
    for meta, bos in (({}, -1), ({"tokenizer.ggml.bos_token_id": 11}, 11)):
        assert make_tokenizer(bpe_vocab([], pre="glm4", bos=11, meta=meta)).bos == bos


def test_unknown_kinds_are_named_with_what_is_supported():
    with pytest.raises(UnsupportedError, match=r'"superbpe".*deepseek-v3.*gpt-4o.*tekken'):
        make_tokenizer(bpe_vocab([], pre="superbpe"))
    for kind in ("bert", "t5", "rwkv", "gemma4", "plamo2", ""):
        vocab = bpe_vocab([])
        object.__setattr__(vocab, "kind", kind)
        with pytest.raises(UnsupportedError, match=f'"{kind}".*gpt2.*llama'):
            make_tokenizer(vocab)


def test_required_names_are_supported():
    required = "llama-bpe qwen2 smollm gpt-2 tekken gpt-4o deepseek-llm deepseek-coder deepseek-v3 default"
    assert set(required.split()) <= set(supported_names())
    assert make_tokenizer(bpe_vocab(_ABC, pre="")).encode("ab") == make_tokenizer(
        bpe_vocab(_ABC, pre="default")
    ).encode("ab")


def test_ids_outside_the_vocabulary_are_refused():
    tokenizer = make_tokenizer(bpe_vocab([]))
    assert tokenizer.piece(255)  # the last; its piece is remembered
    for bad in (-1, 256, 10**9):
        with pytest.raises(OptionError, match=str(bad)):
            tokenizer.piece(bad)
        with pytest.raises(OptionError, match=str(bad)):
            tokenizer.piece(bad, special=True)
        with pytest.raises(OptionError, match=str(bad)):
            tokenizer.decode([65, bad])


def test_other_types_of_text_are_refused():
    with pytest.raises(TypeError, match="list"):
        make_tokenizer(bpe_vocab([])).encode(["a"])  # type: ignore[arg-type]


def test_libraries_are_imported_when_a_tokenizer_is_made():
    code = (
        "import sys, pyspec.core.tokenizer, pyspec.core.vocab; "
        "heavy = {'numpy', 'tokenizers', 'sentencepiece', 'google'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unpack_cuts_a_packed_buffer():
    assert unpack(b"abcd", [0, 1, 1, 4]) == [b"a", b"", b"bcd"]
    assert unpack(memoryview(b""), [0]) == []
