#include "weights/header_stream.h"

#include "support/text.h"

#include <algorithm>

namespace pyspec {

namespace {
constexpr size_t WINDOW_BYTES = 1u << 20;
} // namespace

HeaderStream::HeaderStream(const InputFile & file) : file_(file) {
    window_.resize(static_cast<size_t>(std::min<uint64_t>(WINDOW_BYTES, file.size())));
}

void HeaderStream::require(uint64_t count, uint64_t item_bytes, const char * what) const {
    if (count <= remaining() / item_bytes) return;
    throw Error(PYSPEC_FILE_FORMAT,
                format("%s: damaged or incomplete: %s has %llu %s, but only %s follow byte %llu of the file",
                       file_.path().c_str(), context_.c_str(), static_cast<unsigned long long>(count), what,
                       byte_size(remaining()).c_str(), static_cast<unsigned long long>(position())));
}

void HeaderStream::take_bytes(void * dst, size_t n) {
    auto * out = static_cast<char *>(dst);
    if (n > remaining()) {
        throw Error(PYSPEC_FILE_FORMAT,
                    format("%s: the file is cut short: it ends at byte %llu, inside %s; the download is incomplete",
                           file_.path().c_str(), static_cast<unsigned long long>(file_.size()), context_.c_str()));
    }
    while (n > 0) {
        if (cursor_ == filled_) {
            window_begin_ += filled_;
            cursor_ = 0;
            filled_ = file_.read_some(window_begin_, window_.data(), window_.size());
            if (filled_ == 0) fail("the file has become shorter while it was read");
        }
        const size_t part = std::min(n, filled_ - cursor_);
        std::memcpy(out, window_.data() + cursor_, part);
        cursor_ += part;
        out += part;
        n -= part;
    }
}

void HeaderStream::fail(const std::string & text) const {
    throw Error(PYSPEC_FILE_FORMAT, format("%s: %s (in %s, before byte %llu)", file_.path().c_str(), text.c_str(),
                                           context_.c_str(), static_cast<unsigned long long>(position())));
}

} // namespace pyspec
