#include "history/ngram_map.h"

#include <algorithm>

namespace pyspec {

void DraftLength::learn(size_t n, size_t n_emitted, size_t n_agreed, size_t m) {
    if (n_agreed < n) {
        // Equal as far as the target went: more may have come true, so this says nothing.
        if (n_agreed < n_emitted) length_ = static_cast<uint16_t>(std::max<size_t>(1, n_agreed));
    } else if (n >= length_) {
        length_ = static_cast<uint16_t>(std::min<size_t>(m, size_t{2} * length_));
    }
}

NgramMapK::NgramMapK(size_t n, size_t m, size_t min_hits)
    : NgramDrafter(m, n_copy_evidence), m_(m), min_hits_(min_hits), index_(n) {}

size_t NgramMapK::memory_bytes() const {
    return NgramDrafter::memory_bytes() + index_.memory_bytes() + lengths_.capacity() * sizeof(DraftLength);
}

void NgramMapK::grown(size_t) {
    while (needed(index_.n_starts()) <= tokens_.size()) {
        if (index_.push(tokens_.data()) == lengths_.size()) lengths_.emplace_back(m_);
    }
}

void NgramMapK::cutting(size_t n, bool) {
    drafted_ = NgramIndex::none;
    while (index_.n_starts() > 0 && needed(index_.n_starts() - 1) > n) {
        index_.pop(tokens_.data());
        if (index_.n_keys() < lengths_.size()) lengths_.pop_back();
    }
}

void NgramMapK::make_draft(int32_t last, size_t limit, NgramDraft & draft) {
    drafted_             = NgramIndex::none;
    const int32_t * text = key(index_.n(), last);
    if (text == nullptr) return;
    const uint32_t found = index_.find(tokens_.data(), text);
    if (found == NgramIndex::none) return;
    const uint32_t start  = index_.newest(found);
    const uint32_t before = index_.older(start);
    uint32_t at           = start;
    for (size_t hits = 1; hits < min_hits_; ++hits) {
        at = index_.older(at);
        if (at == NgramIndex::none) return;
    }
    drafted_        = found;
    const size_t n  = index_.n();
    const size_t to = std::min(limit, lengths_[found].get());
    copy_tokens(tokens_, start + n, before == NgramIndex::none ? SIZE_MAX : before + n, to, n, draft);
}

void NgramMapK::followed(size_t n, size_t n_emitted, size_t n_agreed) {
    if (drafted_ != NgramIndex::none) lengths_[drafted_].learn(n, n_emitted, n_agreed, m_);
}

NgramMapK4v::NgramMapK4v(size_t n, size_t m, size_t min_hits)
    : NgramDrafter(m, n_copy_evidence), m_(m), min_hits_(min_hits), index_(n) {}

size_t NgramMapK4v::memory_bytes() const {
    return NgramDrafter::memory_bytes() + index_.memory_bytes() + keys_.capacity() * sizeof(Key) +
           values_.capacity() * sizeof(Value) + value_of_.capacity() * sizeof(uint32_t);
}

void NgramMapK4v::grown(size_t) {
    while (needed(index_.n_starts()) <= tokens_.size()) {
        const size_t start = index_.n_starts();
        const uint32_t id  = index_.push(tokens_.data());
        if (id == keys_.size()) keys_.emplace_back();
        add_occurrence(id, start);
    }
}

void NgramMapK4v::add_occurrence(uint32_t id, size_t start) {
    Key & owner = keys_[id];
    ++owner.hits;
    const int32_t * text = tokens_.data() + start + index_.n();
    size_t n_values      = 0;
    uint32_t value       = owner.value;
    while (value != none && !std::equal(text, text + m_, tokens_.data() + values_[value].place)) {
        value = values_[value].older;
        ++n_values;
    }
    if (value != none) {
        ++values_[value].count;
    } else if (n_values < max_values) {
        value = static_cast<uint32_t>(values_.size());
        values_.push_back({static_cast<uint32_t>(start + index_.n()), 1, owner.value, DraftLength(m_)});
        owner.value = value;
    }
    value_of_.push_back(value);
}

void NgramMapK4v::cutting(size_t n, bool) {
    drafted_ = none;
    while (index_.n_starts() > 0 && needed(index_.n_starts() - 1) > n) {
        Key & owner          = keys_[index_.pop(tokens_.data())];
        const uint32_t value = value_of_.back();
        value_of_.pop_back();
        --owner.hits;
        if (value != none && --values_[value].count == 0) {
            owner.value = values_[value].older;
            values_.pop_back();
        }
        if (index_.n_keys() < keys_.size()) keys_.pop_back();
    }
}

void NgramMapK4v::make_draft(int32_t last, size_t limit, NgramDraft & draft) {
    drafted_             = none;
    const int32_t * text = key(index_.n(), last);
    if (text == nullptr) return;
    const uint32_t found = index_.find(tokens_.data(), text);
    if (found == NgramIndex::none || keys_[found].hits < min_hits_) return;
    uint32_t best = keys_[found].value, n_values = 1;
    for (uint32_t value = values_[best].older; value != none; value = values_[value].older, ++n_values) {
        if (values_[value].count > values_[best].count) best = value;
    }
    const Value & won   = values_[best];
    const uint32_t hits = keys_[found].hits;
    const uint32_t rest = hits - won.count;
    if (won.count < 2 * rest) return;
    drafted_                    = best;
    const CopyEvidence evidence = hits == 1 ? copy_once : rest == 0 ? copy_agreed : copy_split;
    const size_t to             = std::min(limit, won.length.get());
    for (size_t i = 0; i < to; ++i) {
        const float prior = acceptance_prior(static_cast<double>(index_.n()), won.count, hits, n_values, i);
        draft.add(tokens_[won.place + i], prior, evidence);
    }
}

void NgramMapK4v::followed(size_t n, size_t n_emitted, size_t n_agreed) {
    if (drafted_ != none) values_[drafted_].length.learn(n, n_emitted, n_agreed, m_);
}

} // namespace pyspec
