"""Pre-tokenizers: how byte-level BPE cuts a text into words before merging, by the file's ``tokenizer.ggml.pre``.

A kind is a list of regular expressions, applied one after another. Each cuts the words of the one before it: every match
becomes a word, and so does the text between two matches. Expressions are in Oniguruma's syntax, as `tokenizers` takes it.

The expressions are those llama.cpp uses, not those of the models' own tokenizer files; they differ in two places, and token
ids should not depend on which of the two runtimes a user came from:

- "tekken" and "gpt-4o" tell upper from lower case for ASCII letters only; other letters count as both.
- "gpt-2" and what builds on it: white space at the end of a text is a word of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from pyspec.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """One regex set with the defaults that come with the name.

    Attributes:
        regexes: expressions in order of application.
        ignore_merges: a word that is a token as a whole is taken without looking at the merge rules.
        add_bos: BOS is added unless the file says otherwise; None leaves it to the kind of vocabulary.
        default_bos: False when BOS exists only if the file names it.
    """

    regexes: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool | None = None
    default_bos: bool = True


_CONTRACTION = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _SPACES
_QWEN2 = _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _SPACES
_QWEN35 = _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + _SPACES

# A word of upper-case letters and then lower-case ones; letters outside ASCII count as both.
_UPPER, _LOWER = r"[\p{L}&&[^a-z]]", r"[\p{L}&&[^A-Z]]"
_CASED = (rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+", rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*")
_MARKS_AND_SLASHES = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|"
_TEKKEN = rf"{_CASED[0]}|{_CASED[1]}|\p{{N}}|" + _MARKS_AND_SLASHES + _SPACES
_GPT4O = (
    rf"{_CASED[0]}{_CONTRACTION}?|{_CASED[1]}{_CONTRACTION}?|\p{{N}}{{1,3}}|" + _MARKS_AND_SLASHES + _SPACES
)

_DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"""| ?[\p{P}\p{S}]+[\r\n]*|""" + _SPACES
)

# Letters of the cased scripts in "deepseek-llm", as its tokenizer lists them (first-last, hexadecimal).
_CASED_LETTERS = """
00B5 00C0-00D6 00D8-00F6 00F8-01BA 01BC-01BF 01C4-0293 0295-02AF 0370-0373 0376 0377 037B-037D 037F 0386 0388-038A 038C
038E-03A1 03A3-03F5 03F7-0481 048A-052F 0531-0556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF 1D00-1D2B 1D6B-1D77
1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4
1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 2115 2119-211D 2124 2126 2128 212A-212D
212F-2134 2139 213C-213F 2145-2149 214E 2183 2184 2C00-2C7B 2C7E-2CE4 2CEB-2CEE 2CF2 2CF3 A640-A66D A680-A69B A722-A76F
A771-A787 A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3 104D8-104FB 10C80-10CB2
10CC0-10CF2 118A0-118DF 1E900-1E943
"""


def _ranges(listing: str) -> str:
    return "".join("-".join(chr(int(code, 16)) for code in entry.split("-")) for entry in listing.split())


# White space is never part of the literal ranges: llama.cpp hides it from them.
_EAST_ASIAN = r"[[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]&&[^\s]]+"
_DEEPSEEK_LLM = (
    r"[\r\n]",
    rf"\s?[A-Za-z{_ranges(_CASED_LETTERS)}]+",
    r"\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3001-\u3002]+",
    r"\s+\z",
    _EAST_ASIAN,
    r"\p{N}+",
)
_DEEPSEEK_CODER = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _EAST_ASIAN, r"\p{N}")

# Characters of Unicode 16, which `tokenizers` knows and llama.cpp's tables (Unicode 15.1) take for unassigned.
_NEWER = """
0897 1B4E-1B4F 1B7F 1C89-1C8A 2427-2429 31E4-31E5 A7CB-A7CD A7DA-A7DC 105C0-105F3 10D40-10D65 10D69-10D85 10D8E-10D8F
10EC2-10EC4 10EFC 11380-11389 1138B 1138E 11390-113B5 113B7-113C0 113C2 113C5 113C7-113CA 113CC-113D5 113D7-113D8
113E1-113E2 116D0-116E3 11BC0-11BE1 11BF0-11BF9 11F5A 13460-143FA 16100-16139 16D40-16D79 18CFF 1CC00-1CCF9 1CD00-1CEB3
1E5D0-1E5FA 1E5FF 1F8B2-1F8BB 1F8C0-1F8C1 1FA89 1FA8F 1FABE 1FAC6 1FADC 1FADF 1FAE9 1FBCB-1FBEF
"""


def _without_newer(regex: str) -> str:
    """``regex`` with every category limited to the characters llama.cpp knows."""
    newer = _ranges(_NEWER)
    return re.sub(r"\\p\{\w\}", lambda category: f"[{category[0]}&&[^{newer}]]", regex)


_SETS: tuple[tuple[PreTokenizer, str], ...] = (
    (
        PreTokenizer((_LLAMA3,), ignore_merges=True, add_bos=True),
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
    ),
    (PreTokenizer((_LLAMA3,)), "dbrx smaug-bpe"),
    (PreTokenizer((_LLAMA3,), default_bos=False), "chatglm-bpe"),
    (PreTokenizer((_LLAMA3,), ignore_merges=True, default_bos=False), "glm4 glm5"),
    (
        PreTokenizer((_QWEN2,)),
        "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2",
    ),
    (PreTokenizer((_QWEN35,)), "qwen35"),
    (PreTokenizer((_TEKKEN,), ignore_merges=True, add_bos=True), "tekken"),
    (PreTokenizer((_GPT4O,)), "gpt-4o llama4 kanana2 talkie minimax-m2"),
    (
        PreTokenizer((r"\p{N}{1,3}", r"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", _DEEPSEEK3)),
        "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
    ),
    (PreTokenizer(_DEEPSEEK_LLM), "deepseek-llm"),
    (PreTokenizer(_DEEPSEEK_CODER), "deepseek-coder"),
    (
        PreTokenizer((r"\p{N}", _GPT2)),
        "smollm command-r starcoder refact codeshell exaone minerva-7b mellum2",
    ),
    (
        PreTokenizer((_GPT2,)),
        "gpt-2 phi-2 gigachat mellum a.x-4.0 modern-bert exaone4 mpt olmo jais granite-docling trillion",
    ),
    (PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]")), "falcon"),
    (PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")), "default"),
)
_BY_NAME = {name: pre for pre, names in _SETS for name in names.split()}


def supported_names() -> list[str]:
    """Every accepted ``tokenizer.ggml.pre``, in alphabetical order."""
    return sorted(_BY_NAME)


def find_pretokenizer(name: str) -> PreTokenizer:
    """The pre-tokenizer of that name; "" (the key is missing) means "default". Raises UnsupportedError."""
    try:
        pre = _BY_NAME[name or "default"]
    except KeyError:
        known = ", ".join(supported_names())
        raise UnsupportedError(f'pre-tokenizer "{name}" is not supported; supported are: {known}') from None
    return replace(pre, regexes=tuple(_without_newer(regex) for regex in pre.regexes))
