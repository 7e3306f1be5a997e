#include "history/ngram_simple.h"

#include <algorithm>

namespace pyspec {

void NgramSimple::grown(size_t) {
    while (needed(index_.n_starts()) <= tokens_.size()) index_.push(tokens_.data());
}

void NgramSimple::cutting(size_t n, bool) {
    while (index_.n_starts() > 0 && needed(index_.n_starts() - 1) > n) index_.pop(tokens_.data());
}

void NgramSimple::make_draft(int32_t last, size_t limit, NgramDraft & draft) {
    const size_t n      = index_.n();
    const size_t length = tokens_.size();
    if (length <= n + m_ + 1) return;
    const uint32_t found = index_.find(tokens_.data(), key(n, last));
    if (found == NgramIndex::none) return;
    const uint32_t start = index_.newest(found);
    const size_t count   = std::min(m_, length - (start + n));
    if (start < 1 || count < n) return;
    const uint32_t before = index_.older(start);
    copy_tokens(tokens_, start + n, before == NgramIndex::none ? SIZE_MAX : before + n, std::min(count, limit), n,
                draft);
}

} // namespace pyspec
