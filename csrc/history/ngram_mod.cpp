#include "history/ngram_mod.h"

#include "history/token_hash.h"

#include <algorithm>

namespace pyspec {

namespace {

constexpr size_t bad_rounds_until_reset = 5;
constexpr uint8_t one_class             = 0;

} // namespace

NgramMod::NgramMod(size_t n, size_t n_min, size_t n_max, size_t n_entries)
    : NgramDrafter(n_max, 1), n_(n), n_min_(n_min), table_(n_entries) {}

NgramMod::Entry & NgramMod::entry(uint64_t hash) {
    return table_[static_cast<size_t>(((hash >> 32) * table_.size()) >> 32)];
}

void NgramMod::grown(size_t) {
    enter();
}

void NgramMod::enter() {
    for (; entered_ + n_ < tokens_.size(); ++entered_) {
        const int32_t token = tokens_[entered_ + n_];
        if (token < 0) continue; // not text
        const uint64_t hash = token_hash(tokens_.data() + entered_, n_);
        Entry & place       = entry(hash);
        used_ += place.token == empty ? 1 : 0;
        place = {token, static_cast<uint32_t>(hash)};
    }
}

void NgramMod::cutting(size_t n, bool) {
    entered_ = std::min(entered_, n > n_ ? n - n_ : 0);
}

void NgramMod::begun() {
    if (used_ > table_.size() / 4) reset();
}

void NgramMod::reset() {
    std::fill(table_.begin(), table_.end(), Entry{});
    used_ = entered_ = n_low_ = 0;
    enter();
}

void NgramMod::make_draft(int32_t last, size_t limit, NgramDraft & draft) {
    const int32_t * text = key(n_, last);
    if (text == nullptr) return;
    window_.assign(text, text + n_);
    const size_t wanted = std::max(limit, n_min_);
    for (size_t i = 0; i < wanted; ++i) {
        const uint64_t hash = token_hash(window_.data() + i, n_);
        const Entry & found = entry(hash);
        if (found.token == empty || found.check != static_cast<uint32_t>(hash)) {
            if (i < n_min_) draft.clear();
            return;
        }
        window_.push_back(found.token);
        draft.add(found.token, acceptance_prior(static_cast<double>(n_), 1, 1, 1, i), one_class);
    }
}

void NgramMod::verified(size_t n_draft, size_t n_accepted) {
    n_low_ = 4 * n_accepted < n_draft ? n_low_ + 1 : 0;
    if (n_low_ >= bad_rounds_until_reset) reset();
}

} // namespace pyspec
