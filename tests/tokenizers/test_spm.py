"""SentencePiece BPE on hand-made vocabularies: merging, spaces, bytes, the hand-written model message. No model files."""

from __future__ import annotations

import pytest

from pyspec.core.tokenizer import make_tokenizer
from pyspec.core.tokenizer.spm import model_message
from pyspec.core.vocab import TokenType
from pyspec.errors import FileFormatError
from tests.tokenizers.tiny_vocabs import spm_vocab, token_id, token_texts

_PIECES = [
    *(("▁", -1.0), ("a", -1.0), ("b", -1.0), ("c", -1.0), ("ab", -2.0), ("bc", -3.0)),
    *(("▁ab", -4.0), ("▁▁", -5.0), ("é", -9.0)),
]


def _texts(vocab, text, **options):
    return token_texts(vocab, make_tokenizer(vocab).encode(text, add_special=False, **options))


def test_the_best_score_merges_first():
    vocab = spm_vocab(_PIECES)
    assert _texts(vocab, "abc") == ["▁ab", "c"]
    assert _texts(vocab, "bc") == ["▁", "bc"]
    better_bc = [(t, -1.5 if t == "bc" else s) for t, s in _PIECES]
    assert _texts(spm_vocab(better_bc), "abc") == ["▁", "a", "bc"]


def test_a_space_is_put_in_front_of_the_text_and_after_special_tokens():
    extra = [("<|user|>", TokenType.USER_DEFINED)]
    vocab = spm_vocab(_PIECES, extra)
    assert _texts(vocab, "a<|user|>a<|user|> a") == ["▁", "a", "<|user|>", "▁", "a", "<|user|>", "▁▁", "a"]
    bare = spm_vocab(_PIECES, extra, add_space_prefix=False)
    assert _texts(bare, "a<|user|>a b") == ["a", "<|user|>", "a", "▁", "b"]


def test_white_space_is_kept_and_not_normalised():
    vocab = spm_vocab(_PIECES, add_space_prefix=False)
    assert _texts(vocab, "  a   ") == ["▁▁", "a", "▁▁", "▁"]
    assert _texts(vocab, "\n\t") == ["<0x0A>", "<0x09>"]
    assert _texts(vocab, "e\u0301ﬁ\0") == [f"<0x{b:02X}>" for b in "e\u0301ﬁ\0".encode()]
    assert _texts(vocab, "é") == ["é"]


def test_broken_symbols_become_bytes_and_part_their_neighbours():
    """The first byte of a character decides how many bytes belong to it."""
    vocab = spm_vocab(_PIECES, add_space_prefix=False)
    assert _texts(vocab, b"a\xffb") == ["a", "<0xFF>", "<0x62>"]  # FF announces four bytes
    assert _texts(vocab, b"a\x80bc") == ["a", "<0x80>", "bc"]
    assert _texts(vocab, b"\xe4ab") == ["<0xE4>", "<0x61>", "<0x62>"]
    assert _texts(vocab, b"\xc3 ab") == [
        "<0xC3>",
        "<0xE2>",
        "<0x96>",
        "<0x81>",
        "ab",
    ]  # half of the space's mark


def test_unused_and_control_texts_take_part_in_merging():
    """As in llama.cpp, where merging knows only texts."""
    extra = [("abc", TokenType.UNUSED), ("ca", TokenType.CONTROL)]
    vocab = spm_vocab(_PIECES, extra, add_space_prefix=False)
    assert _texts(vocab, "abc") == ["abc"]
    assert _texts(vocab, "ca") == ["ca"]


def test_a_token_stored_with_spaces_is_found_in_raw_text_only():
    vocab = spm_vocab(_PIECES, [("   ", TokenType.USER_DEFINED)], add_space_prefix=False)
    assert _texts(vocab, "a    b") == ["a", "   ", "▁", "b"]


def test_bos_and_eos():
    vocab = spm_vocab(_PIECES)
    assert make_tokenizer(vocab).encode("") == [1]
    assert make_tokenizer(vocab).encode("a") == [1, token_id(vocab, "▁"), token_id(vocab, "a")]
    off = spm_vocab(_PIECES, add_eos=True, meta={"tokenizer.ggml.add_bos_token": False})
    assert make_tokenizer(off).encode("b") == [token_id(vocab, "▁"), token_id(vocab, "b"), 2]


def test_without_byte_tokens_an_unknown_character_is_an_error_that_says_so():
    vocab = spm_vocab(_PIECES, byte_tokens=False)
    assert _texts(vocab, "ab") == ["▁ab"]
    for text in ("x", b"\xff"):
        with pytest.raises(FileFormatError, match="no byte tokens"):
            make_tokenizer(vocab).encode(text)


def test_decode_gives_the_text_back():
    tokenizer = make_tokenizer(spm_vocab(_PIECES))
    for text in ("abc", " abc", "  a b ", "Ж🦙\n", "", " "):
        assert tokenizer.decode(tokenizer.encode(text)) == text.encode()
        assert tokenizer.decode(tokenizer.encode(text, add_special=False)) == text.encode()
    ids = tokenizer.encode("ab", add_special=False)
    assert tokenizer.decode(ids, continuation=True) == b" ab"
    assert tokenizer.decode([1, *ids], special=True) == b"<s> ab"


def test_the_message_is_what_sentencepiece_itself_reads():
    """Read back with sentencepiece's own message class."""
    pytest.importorskip("google.protobuf", reason="protobuf is not installed")
    from sentencepiece import sentencepiece_model_pb2 as pb

    vocab = spm_vocab([("x" * 300, -0.5), *_PIECES])
    model = pb.ModelProto.FromString(model_message(vocab, list(range(3, 259))))
    assert [p.piece.encode() for p in model.pieces[:-1]] == list(vocab.texts)
    assert [p.score for p in model.pieces[:-1]] == list(vocab.scores)
    assert {p.type for p in model.pieces[3:259]} == {6} and {p.type for p in model.pieces[259:-1]} == {1}
    assert model.pieces[-1].type == 2 and model.trainer_spec.unk_id == len(vocab.texts)
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    assert trainer.model_type == 2 and trainer.byte_fallback
    assert (trainer.bos_id, trainer.eos_id, trainer.pad_id) == (-1, -1, -1)
    assert normalizer.name == "identity" and normalizer.escape_whitespaces
    assert not normalizer.add_dummy_prefix and not normalizer.remove_extra_whitespaces


def test_repeated_texts_are_a_fault_of_the_file():
    with pytest.raises(FileFormatError, match=r"not usable.*ab"):
        make_tokenizer(spm_vocab([*_PIECES, ("ab", -7.0)]))


def test_texts_that_are_not_utf8_do_no_harm():
    vocab = spm_vocab(_PIECES, add_space_prefix=False)
    object.__setattr__(vocab, "texts", [*vocab.texts, b"\xff\xfe", b"a\xc3"])
    object.__setattr__(vocab, "types", [*vocab.types, TokenType.NORMAL, TokenType.NORMAL])
    object.__setattr__(vocab, "scores", [*vocab.scores, 0.0, 0.0])
    tokenizer = make_tokenizer(vocab)
    assert tokenizer.encode("abc", add_special=False) == [token_id(vocab, "ab"), token_id(vocab, "c")]
    assert tokenizer.piece(vocab.n_tokens - 1) == b"a\xc3"


def test_missing_scores_are_zero():
    vocab = spm_vocab(_PIECES, add_space_prefix=False)
    object.__setattr__(vocab, "scores", ())
    assert _texts(vocab, "abc") == ["ab", "c"]  # leftmost


def test_continuation_has_no_space_in_front() -> None:
    """Text in the middle: no BOS, and the space that starts a text stays away."""
    vocab = spm_vocab([("a", -1.0), ("b", -2.0), ("ab", -3.0), ("\u2581", -4.0), ("\u2581ab", -5.0)])
    tokenizer = make_tokenizer(vocab)
    assert token_texts(vocab, tokenizer.encode("ab")) == ["<s>", "\u2581ab"]
    assert token_texts(vocab, tokenizer.encode_continuation("ab")) == ["ab"]
    assert token_texts(vocab, tokenizer.encode_continuation(b" ab")) == ["\u2581ab"]
    assert tokenizer.encode_continuation("") == []
    assert tokenizer.pieces() == [tokenizer.piece(token) for token in range(vocab.n_tokens)]
