#include "weights/not_gguf.h"

#include "support/text.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace pyspec {

namespace {

bool starts_with_any(std::string_view head, std::initializer_list<std::string_view> list) {
    return std::any_of(list.begin(), list.end(), [&](std::string_view magic) { return head.starts_with(magic); });
}

const char * guess(std::string_view head) {
    using namespace std::string_view_literals;
    const size_t text_at        = std::min(head.find_first_not_of(" \t\r\n"), head.size());
    const std::string_view text = head.substr(text_at);
    if (head.size() < 4) return "it is too short to be a model; the download was probably cut off";
    if (starts_with_any(text, {"<!DOCTYPE", "<!doctype", "<html", "<HTML", "<?xml", "<head", "<!--"})) {
        return "it is a web page saved under this name; use the file's download link, not the page that shows it";
    }
    if (head.starts_with("version https://git-lfs")) {
        return "it is a Git LFS pointer; run `git lfs pull` in that repository to get the real file";
    }
    // The old formats wrote their magic as a little-endian number, so the letters stand in reverse.
    if (starts_with_any(head, {"lmgg", "tjgg", "fmgg", "algg"})) {
        return "it is an old GGML model from before August 2023; get a GGUF version of the model or convert it";
    }
    if (head.starts_with("PK\x03\x04")) {
        return "it is a zip archive (PyTorch checkpoints look like this); unpack it, or convert the checkpoint to GGUF";
    }
    if (starts_with_any(head, {"\x1f\x8b"sv, "\xfd\x37zXZ"sv, "\x28\xb5\x2f\xfd"sv, "BZh"sv, "7z\xbc\xaf"sv})) {
        return "it is a compressed archive; unpack it first";
    }
    if (head.size() > 9 && head.substr(5, 3) == "\0\0\0"sv && head[8] == '{') {
        return "it is a safetensors file; convert the model to GGUF first";
    }
    if (text.starts_with("{") || text.starts_with("["))
        return "it is JSON text, perhaps an error message of the server";
    if (head.starts_with("\x80\x02"sv)) return "it is a Python pickle (an old PyTorch checkpoint); convert it to GGUF";
    if (head.find_first_not_of('\0') == head.npos) {
        return "it starts with zeros; the download reserved the space but did not finish";
    }
    return "a GGUF file starts with the letters GGUF; the file is another format or damaged";
}

} // namespace

void throw_not_gguf(const InputFile & file) {
    if (file.size() == 0) {
        throw Error(PYSPEC_FILE_FORMAT, file.path() + ": the file is empty (0 bytes); download it again");
    }
    char bytes[64];
    const size_t n = file.read_some(0, bytes, sizeof bytes);
    const std::string_view head(bytes, n);
    throw Error(PYSPEC_FILE_FORMAT, format("%s: not a GGUF file: %s, first bytes %s: %s", file.path().c_str(),
                                           byte_size(file.size()).c_str(), quote_bytes(head, 16).c_str(), guess(head)));
}

} // namespace pyspec
