#include "history/ngram_drafter.h"

#include "support/error.h"

#include <algorithm>

namespace pyspec {

namespace {

constexpr size_t max_history = size_t{1} << 30;

size_t common_prefix(const int32_t * a, size_t n_a, const int32_t * b, size_t n_b) {
    const size_t n = std::min(n_a, n_b);
    return static_cast<size_t>(std::mismatch(a, a + n, b).first - a);
}

} // namespace

void NgramDraft::clear() {
    cut(0);
}

void NgramDraft::add(int32_t token, float token_prior, uint8_t token_evidence) {
    tokens.push_back(token);
    prior.push_back(token_prior);
    evidence.push_back(token_evidence);
}

void NgramDraft::cut(size_t n) {
    if (n >= tokens.size()) return;
    tokens.resize(n);
    prior.resize(n);
    evidence.resize(n);
}

void NgramDrafter::begin(const int32_t * tokens, size_t n) {
    const size_t agreed = common_prefix(tokens_.data(), tokens_.size(), tokens, n);
    truncate(agreed, false);
    append(tokens + agreed, n - agreed);
    begun();
}

const NgramDraft & NgramDrafter::propose(int32_t last, size_t limit) {
    draft_.clear();
    limit = std::min(limit, max_draft_);
    if (limit == 0 || last < 0) return draft_;
    make_draft(last, limit, draft_);
    const auto text_end = std::find_if(draft_.tokens.begin(), draft_.tokens.end(), [](int32_t t) { return t < 0; });
    draft_.cut(std::min(limit, static_cast<size_t>(text_end - draft_.tokens.begin())));
    if (!draft_.tokens.empty()) record_.open(draft_.tokens.data(), draft_.evidence.data(), draft_.tokens.size());
    return draft_;
}

void NgramDrafter::commit(const int32_t * kept, size_t n_kept, const int32_t * emitted, size_t n_emitted,
                          size_t n_draft, size_t n_accepted) {
    if (n_emitted == 0) {
        record_.forget_open();
    } else {
        const size_t n = draft_.tokens.size();
        if (n > 0) followed(n, n_emitted, common_prefix(draft_.tokens.data(), n, emitted, n_emitted));
        record_.observe(emitted, n_emitted);
    }
    draft_.clear();
    if (n_draft > 0) verified(n_draft, n_accepted);
    append(kept, n_kept);
}

void NgramDrafter::truncate(size_t n, bool withdrawn) {
    draft_.clear();
    record_.forget_open();
    if (n >= tokens_.size()) return;
    cutting(n, withdrawn);
    tokens_.resize(n);
}

void NgramDrafter::remove(size_t first, size_t end) {
    end   = std::min(end, tokens_.size());
    first = std::min(first, end);
    const std::vector<int32_t> tail(tokens_.begin() + static_cast<std::ptrdiff_t>(end), tokens_.end());
    truncate(end, true); // only taken out for a moment
    truncate(first, false);
    append(tail.data(), tail.size());
}

size_t NgramDrafter::memory_bytes() const {
    return (tokens_.capacity() + key_.capacity()) * sizeof(int32_t) + record_.memory_bytes() +
           draft_.tokens.capacity() * (sizeof(int32_t) + sizeof(float) + 1);
}

const int32_t * NgramDrafter::key(size_t n, int32_t last) {
    if (tokens_.size() + 1 < n) return nullptr;
    key_.assign(tokens_.end() - static_cast<std::ptrdiff_t>(n - 1), tokens_.end());
    key_.push_back(last);
    return key_.data();
}

void NgramDrafter::append(const int32_t * tokens, size_t n) {
    if (n == 0) return;
    const size_t from = tokens_.size();
    if (n > max_history - from) {
        throw Error(PYSPEC_OPTION, format("a history of %zu tokens is longer than the %zu that drafters can index",
                                          from + n, max_history));
    }
    tokens_.insert(tokens_.end(), tokens, tokens + n);
    grown(from);
}

void copy_tokens(const std::vector<int32_t> & history, size_t from, size_t other, size_t n, size_t length,
                 NgramDraft & draft) {
    bool agreed = other != SIZE_MAX;
    for (size_t i = 0; i < n; ++i) {
        const int32_t token   = history[from + i];
        CopyEvidence evidence = copy_once;
        if (agreed) {
            agreed   = history[other + i] == token;
            evidence = agreed ? copy_agreed : copy_split;
        }
        const double n_seen = evidence == copy_once ? 1.0 : 2.0;
        const double count  = evidence == copy_agreed ? 2.0 : 1.0;
        const double n_next = evidence == copy_split ? 2.0 : 1.0;
        draft.add(token, acceptance_prior(static_cast<double>(length), count, n_seen, n_next, i), evidence);
    }
}

} // namespace pyspec
