"""Token id to bytes, by type of token. No model files."""

from __future__ import annotations

from pyspec.core.tokenizer import make_tokenizer
from pyspec.core.tokenizer.pieces import byte_alphabet, undo_byte_alphabet
from pyspec.core.vocab import TokenType
from tests.tokenizers.tiny_vocabs import bpe_vocab, spm_vocab, token_id

_KINDS = [(f"▁Ġ{kind.name}", kind) for kind in TokenType if kind != TokenType.BYTE]


def test_the_alphabet_is_a_permutation_with_gpt2s_landmarks():
    alphabet = byte_alphabet()
    assert len(set(alphabet)) == 256
    assert (alphabet[0x20], alphabet[0x0A], alphabet[0x00], alphabet[0xAD], alphabet[0x41]) == (
        "Ġ",
        "Ċ",
        "Ā",
        "Ń",
        "A",
    )
    assert b"".join(undo_byte_alphabet(c.encode()) for c in alphabet) == bytes(range(256))


def test_characters_outside_the_alphabet_stand_for_themselves():
    assert undo_byte_alphabet("Ġ漢\u200dĊ".encode()) == " 漢\u200d\n".encode()
    assert undo_byte_alphabet(b"\xff\xfe") == b"\xff\xfe"
    alphabet = byte_alphabet()
    for code in range(0x500):
        byte = alphabet.index(chr(code)) if chr(code) in alphabet else None
        expected = chr(code).encode() if byte is None else bytes([byte])
        assert undo_byte_alphabet(f"\u0120{chr(code)}".encode()) == b" " + expected


def test_bpe_pieces_by_type():
    vocab = bpe_vocab([], _KINDS)
    tokenizer = make_tokenizer(vocab)
    got = {
        kind.name: [tokenizer.piece(token_id(vocab, t), special) for special in (False, True)]
        for t, kind in _KINDS
    }
    stored = {kind.name: t.encode() for t, kind in _KINDS}
    assert got == {
        "NORMAL": ["▁ NORMAL".encode()] * 2,
        "USER_DEFINED": [stored["USER_DEFINED"]] * 2,
        "CONTROL": [b"", stored["CONTROL"]],
        "UNKNOWN": [b"", stored["UNKNOWN"]],
        "UNUSED": [b"", b""],
        "UNDEFINED": [b"", b""],
    }


def test_spm_pieces_by_type():
    vocab = spm_vocab([], [*_KINDS, ("odd", TokenType.BYTE)])
    tokenizer = make_tokenizer(vocab)
    plain = {kind.name: tokenizer.piece(token_id(vocab, t)) for t, kind in _KINDS}
    assert plain["NORMAL"] == " ĠNORMAL".encode() and plain["USER_DEFINED"] == "▁ĠUSER_DEFINED".encode()
    assert plain["CONTROL"] == plain["UNKNOWN"] == plain["UNUSED"] == plain["UNDEFINED"] == b""
    assert [tokenizer.piece(3 + b) for b in range(256)] == [bytes([b]) for b in range(256)]
    assert tokenizer.piece(token_id(vocab, "odd")) == b"odd"
    assert tokenizer.piece(1, special=True) == b"<s>" and tokenizer.piece(1) == b""
