"""llama.cpp's lookup cache files, written and read without the core."""

from __future__ import annotations

import struct


def write(table: dict[tuple[int, ...], dict[int, int]]) -> bytes:
    out = b""
    for key, found in table.items():
        out += struct.pack("=4i", *key, *[-1] * (4 - len(key)))
        out += struct.pack("=i", len(found))
        for token, count in found.items():
            out += struct.pack("=2i", token, count)
    return out


def parse(content: bytes) -> dict[tuple[int, ...], dict[int, int]]:
    table: dict[tuple[int, ...], dict[int, int]] = {}
    at = 0
    while at < len(content):
        *key, n = struct.unpack_from("=5i", content, at)
        at += 20
        ngram = tuple(token for token in key if token != -1)
        assert ngram not in table and n > 0
        table[ngram] = {}
        for _ in range(n):
            token, count = struct.unpack_from("=2i", content, at)
            at += 8
            assert token not in table[ngram]
            table[ngram][token] = count
    return table
