// Sequential reading of a file's header through a small window, with the length checks that every parser step needs.
#pragma once

#include "support/mapped_file.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace pyspec {

class HeaderStream {
public:
    explicit HeaderStream(const InputFile & file);

    uint64_t position() const { return window_begin_ + cursor_; }
    uint64_t remaining() const { return file_.size() - position(); }

    // Names the part of the file being read, for messages: "the value of key 'a.b'".
    void set_context(std::string context) { context_ = std::move(context); }
    const std::string & context() const { return context_; }

    // Throws FILE_FORMAT when fewer than `count` items of `item_bytes` are left. Must be asked before memory is
    // allocated for them.
    void require(uint64_t count, uint64_t item_bytes, const char * what) const;

    template <typename T> T take() {
        static_assert(std::is_trivially_copyable_v<T>);
        T value;
        take_bytes(&value, sizeof value);
        return value;
    }
    void take_bytes(void * dst, size_t n);

    // Throws FILE_FORMAT: path, the text, and where the stream stands.
    [[noreturn]] void fail(const std::string & text) const;

private:
    const InputFile & file_;
    std::vector<char> window_;
    uint64_t window_begin_ = 0; // file offset of window_[0]
    size_t cursor_         = 0;
    size_t filled_         = 0;
    std::string context_   = "the header";
};

} // namespace pyspec
