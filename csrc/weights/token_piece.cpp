// Token to bytes: the inverse of what the tokenizer kinds do to text before looking it up.
#include "weights/vocabulary.h"

#include <algorithm>
#include <array>

namespace pyspec {

namespace {

constexpr std::string_view BLANK = "\xe2\x96\x81"; // U+2581, a space in SPM vocabularies

std::string blanks_to_spaces(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (size_t i = 0; i < text.size();) {
        if (text.substr(i, BLANK.size()) == BLANK) {
            out += ' ';
            i += BLANK.size();
        } else {
            out += text[i++];
        }
    }
    return out;
}

// Byte of a text "<0x41>", or -1.
int byte_of_name(std::string_view text) {
    if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
    int value = 0;
    for (const char c : text.substr(3, 2)) {
        int digit;
        if (c >= '0' && c <= '9') {
            digit = c - '0';
        } else if (c >= 'A' && c <= 'F') {
            digit = c - 'A' + 10;
        } else if (c >= 'a' && c <= 'f') {
            digit = c - 'a' + 10;
        } else {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

// GPT-2's printable alphabet: bytes that are printable in Latin-1 stand for themselves, the other 68 in ascending order
// for the code points from U+0100 on. Entry c is the byte of code point c, -1 for none.
constexpr int ALPHABET_SIZE = 0x144;

std::array<int16_t, ALPHABET_SIZE> make_byte_alphabet() {
    std::array<int16_t, ALPHABET_SIZE> table;
    table.fill(-1);
    int next = 0x100;
    for (int b = 0; b < 256; b++) {
        const bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        table[static_cast<size_t>(printable ? b : next++)] = static_cast<int16_t>(b);
    }
    return table;
}

std::string undo_byte_alphabet(std::string_view text) {
    static const std::array<int16_t, ALPHABET_SIZE> table = make_byte_alphabet();
    std::string out;
    out.reserve(text.size());
    for (size_t i = 0; i < text.size(); i++) {
        const auto u = static_cast<unsigned char>(text[i]);
        int code     = u < 0x80 ? u : -1;
        // The whole alphabet lies within one- and two-byte characters.
        const bool two =
            (u & 0xe0) == 0xc0 && i + 1 < text.size() && (static_cast<unsigned char>(text[i + 1]) & 0xc0) == 0x80;
        if (two) code = (u & 0x1f) << 6 | (static_cast<unsigned char>(text[i + 1]) & 0x3f);
        if (code >= 0 && code < ALPHABET_SIZE && table[static_cast<size_t>(code)] >= 0) {
            out += static_cast<char>(table[static_cast<size_t>(code)]);
            i += two ? 1 : 0;
        } else {
            out += text[i]; // not written in the alphabet: keep the bytes
        }
    }
    return out;
}

} // namespace

std::string_view Vocabulary::token_text(int32_t id) const {
    const auto i = static_cast<size_t>(id);
    return std::string_view(text).substr(text_offset[i], text_offset[i + 1] - text_offset[i]);
}

bool Vocabulary::is_eog(int32_t id) const {
    return std::binary_search(eog.begin(), eog.end(), id);
}

std::string Vocabulary::piece(int32_t id, bool special) const {
    const std::string_view stored = token_text(id);
    switch (types[static_cast<size_t>(id)]) {
    case PYSPEC_TOKEN_CONTROL:
    case PYSPEC_TOKEN_UNKNOWN:
        return special ? std::string(stored) : std::string();
    case PYSPEC_TOKEN_USER_DEFINED:
        return std::string(stored);
    case PYSPEC_TOKEN_BYTE: {
        const int byte = byte_of_name(stored);
        return byte >= 0 ? std::string(1, static_cast<char>(byte)) : std::string(stored);
    }
    case PYSPEC_TOKEN_NORMAL:
        break;
    default:
        return {}; // unused and undefined entries are padding of the table
    }
    if (kind == "gpt2") return undo_byte_alphabet(stored);
    if (kind == "llama" || kind == "t5" || kind == "gemma4" || kind == "bert") return blanks_to_spaces(stored);
    return std::string(stored);
}

} // namespace pyspec
