#include "history/ngram_cache.h"

#include <algorithm>

namespace pyspec {

size_t NgramCache::memory_bytes() const {
    return NgramDrafter::memory_bytes() + context_.memory_bytes() + dynamic_.memory_bytes() + static_.memory_bytes() +
           best_before_.capacity() * sizeof(best_before_[0]);
}

void NgramCache::load_dynamic(std::string_view bytes, const std::string & name) {
    dynamic_ = parse_ngram_counts(bytes, n_vocab_, name);
}

void NgramCache::load_static(std::string_view bytes, const std::string & name) {
    static_ = parse_ngram_counts(bytes, n_vocab_, name);
}

std::string NgramCache::save_dynamic() const {
    NgramCounts all = dynamic_;
    all.merge(context_);
    return write_ngram_counts(all);
}

// Calls f(size, key) for the n-grams that token i of the history followed, shortest first; none if it is not text.
template <typename F> void NgramCache::each_ngram(size_t i, F && f) const {
    if (tokens_[i] < 0) return;
    for (size_t size = 1; size <= std::min(max_size, i) && tokens_[i - size] >= 0; ++size) {
        f(size, ngram_key(tokens_.data() + i - size, size));
    }
}

void NgramCache::grown(size_t from) {
    best_before_.resize(tokens_.size());
    for (size_t i = from; i < tokens_.size(); ++i) {
        each_ngram(
            i, [&](size_t size, const NgramKey & key) { best_before_[i][size - 1] = context_.add(key, tokens_[i]); });
    }
}

void NgramCache::cutting(size_t n, bool withdrawn) {
    if (learn_ && !withdrawn) {
        for (size_t i = n; i < tokens_.size() && dynamic_.n_entries() < max_learnt; ++i) {
            each_ngram(i, [&](size_t, const NgramKey & key) { dynamic_.add(key, tokens_[i]); });
        }
    }
    for (size_t i = tokens_.size(); i-- > n;) {
        std::array<NgramKey, max_size> keys;
        size_t n_keys = 0;
        each_ngram(i, [&](size_t, const NgramKey & key) { keys[n_keys++] = key; });
        while (n_keys-- > 0) context_.take_back(keys[n_keys], tokens_[i], best_before_[i][n_keys]);
    }
    best_before_.resize(n);
}

void NgramCache::make_draft(int32_t last, size_t limit, NgramDraft & draft) {
    if (tokens_.size() + 1 < max_size) return;
    const int32_t * text = key(max_size, last);
    window_.assign(text, text + max_size);
    while (draft.tokens.size() < limit) {
        const int32_t * text_end         = window_.data() + window_.size();
        const NgramCounts::Entry * known = static_.find(ngram_key(text_end - 2, 2));
        if (!add_from(context_, lax, text_end, known, 0, draft) &&
            !add_from(dynamic_, strict, text_end, known, max_size, draft)) {
            if (known == nullptr) return;
            const int64_t count = static_.count(*known, known->best);
            if (known->sum < lax.samples[1] || 100 * count < lax.percent[1] * known->sum) return;
            const double n_next = count == known->sum ? 1 : 2;
            draft.add(known->best,
                      acceptance_prior(2, static_cast<double>(count), static_cast<double>(known->sum), n_next,
                                       draft.tokens.size()),
                      2 * max_size);
        }
        window_.push_back(draft.tokens.back());
    }
}

// Adds the token that the table says follows the text, if it is sure enough. known: the static table's entry, or null.
bool NgramCache::add_from(const NgramCounts & counts, const Thresholds & thresholds, const int32_t * text_end,
                          const NgramCounts::Entry * known, uint8_t evidence, NgramDraft & draft) const {
    for (size_t size = max_size; size >= 1; --size) {
        const int32_t * text = text_end - size;
        if (std::any_of(text, text_end, [](int32_t t) { return t < 0; })) continue;
        const NgramCounts::Entry * e = counts.find(ngram_key(text, size));
        if (e == nullptr) continue;
        // Only the most frequent token and those of the static table can have the largest product: all others have a
        // smaller count than the most frequent one and are not multiplied. Equal products: the most frequent one, then
        // the lowest id.
        int32_t best       = e->best;
        int64_t best_count = counts.count(*e, best);
        if (known != nullptr) {
            const auto product = [](int64_t count, int64_t count_static) {
                return static_cast<double>(count) *
                       (count_static > 0 ? 100.0 * static_cast<double>(count_static) : 1.0);
            };
            double largest = product(best_count, static_.count(*known, best));
            static_.each(*known, [&](int32_t token, int32_t count_static) {
                const int64_t count = counts.count(*e, token);
                const double value  = product(count, count_static);
                if (count > 0 && (value > largest || (value == largest && best != e->best && token < best))) {
                    largest    = value;
                    best       = token;
                    best_count = count;
                }
            });
        }
        if (e->sum < thresholds.samples[size - 1] || 100 * best_count < thresholds.percent[size - 1] * e->sum) continue;
        const double n_next = best_count == e->sum ? 1 : 2;
        draft.add(best,
                  acceptance_prior(static_cast<double>(size), static_cast<double>(best_count),
                                   static_cast<double>(e->sum), n_next, draft.tokens.size()),
                  static_cast<uint8_t>(evidence + size - 1));
        return true;
    }
    return false;
}

} // namespace pyspec
