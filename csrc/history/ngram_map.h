// ngram-map-k and ngram-map-k4v: n-grams of the history as keys, the m tokens that followed them as values.
//
// An occurrence counts when all m tokens after it exist. Both drafters remember for each key how long a draft from it
// is worth: the length starts at m, falls to what came true (never below 1, so that a key can recover) and doubles each
// time a draft of that length came true as a whole. That is judged by the tokens the target emitted next, whoever
// drafted them. Otherwise a draft is a function of the history alone.
//
// Where llama.cpp's drafters of these names differ: there the draft depends on when it was asked before (first writer
// of a bucket, counts of lookups, a last occurrence counted twice); the length may fall to 0 for good; min_hits counts
// lookups; a fifth value is invisible; values are copied from another place than the one that won.
#pragma once

#include "history/ngram_drafter.h"
#include "history/ngram_index.h"

#include <vector>

namespace pyspec {

// How long drafts from one source should be, learnt from what came true.
class DraftLength {
public:
    explicit DraftLength(size_t m) : length_(static_cast<uint16_t>(m)) {}
    size_t get() const { return length_; }
    // A draft of n tokens was followed by n_emitted tokens of which the first n_agreed equal it. m: the longest draft.
    void learn(size_t n, size_t n_emitted, size_t n_agreed, size_t m);

private:
    uint16_t length_;
};

// map-k: the newest occurrence's value. No draft before the key occurred min_hits times.
// Cost per committed token: O(n); per draft: O(n + draft + min_hits). Memory: at most 52 bytes per token of the longest
// history.
class NgramMapK final : public NgramDrafter {
public:
    NgramMapK(size_t n, size_t m, size_t min_hits);
    size_t memory_bytes() const override;

protected:
    void grown(size_t from) override;
    void cutting(size_t n, bool withdrawn) override;
    void make_draft(int32_t last, size_t limit, NgramDraft & draft) override;
    void followed(size_t n, size_t n_emitted, size_t n_agreed) override;

private:
    size_t needed(size_t start) const { return start + index_.n() + m_; }

    size_t m_, min_hits_;
    NgramIndex index_;
    std::vector<DraftLength> lengths_; // by key
    uint32_t drafted_ = NgramIndex::none;
};

// map-k4v: counts up to four distinct values of each key, in the order in which they appeared; occurrences of others
// count against all four. The most frequent value is drafted if it has at least twice as many occurrences as all
// others together, and if the key occurred min_hits times. Each value has a length of its own.
// Cost per committed token: O(n + m); per draft: O(n + draft). Memory: at most 104 bytes per token of the longest
// history.
class NgramMapK4v final : public NgramDrafter {
public:
    NgramMapK4v(size_t n, size_t m, size_t min_hits);
    size_t memory_bytes() const override;

protected:
    void grown(size_t from) override;
    void cutting(size_t n, bool withdrawn) override;
    void make_draft(int32_t last, size_t limit, NgramDraft & draft) override;
    void followed(size_t n, size_t n_emitted, size_t n_agreed) override;

private:
    static constexpr size_t max_values = 4;
    static constexpr uint32_t none     = NgramIndex::none;

    struct Key {
        uint32_t value = none; // the youngest of its values
        uint32_t hits  = 0;    // occurrences
    };
    // In the order of their first occurrence over all keys: the last one made is the first to go.
    struct Value {
        uint32_t place; // of its first token, at its first occurrence
        uint32_t count;
        uint32_t older; // the value before of the same key
        DraftLength length;
    };

    size_t needed(size_t start) const { return start + index_.n() + m_; }
    void add_occurrence(uint32_t key, size_t start);

    size_t m_, min_hits_;
    NgramIndex index_;
    std::vector<Key> keys_;
    std::vector<Value> values_;
    std::vector<uint32_t> value_of_; // by start; none: a fifth value
    uint32_t drafted_ = none;
};

} // namespace pyspec
