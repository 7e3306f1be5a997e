// Which tokens followed an n-gram, and how often: one table of counts for n-grams of 1 to 4 tokens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pyspec {

// 1 to 4 token ids (none negative), oldest first, the rest -1.
using NgramKey = std::array<int32_t, 4>;

NgramKey ngram_key(const int32_t * tokens, size_t n);

// Memory: 40 bytes and a slot of 8 to 16 per n-gram, 16 and a slot of 8 to 16 for each further token after it than the
// first. It does not shrink. At most 2^32 - 2 of both. One thread at a time.
class NgramCounts {
public:
    static constexpr uint32_t none     = ~0u;
    static constexpr int32_t no_token  = -1;
    static constexpr int32_t max_count = INT32_MAX; // counts stay there

    NgramCounts() : key_slots_(64, none), pair_slots_(64, none) {}

    struct Entry {
        NgramKey key;
        int64_t sum;         // of all counts
        int32_t first_token; // the first that followed, with its count
        int32_t first_count;
        int32_t best;  // a token with the largest count
        uint32_t more; // the youngest of its further tokens
    };

    // n-gram was followed by token. Among equals the newest becomes the best. Returns the best before, for take_back.
    int32_t add(const NgramKey & key, int32_t token);
    // Undoes the last add that was not undone: in reverse order, and no add_count in between.
    void take_back(const NgramKey & key, int32_t token, int32_t best_before);
    // Adds count occurrences. Among equals the lowest id becomes the best, so that order does not matter.
    void add_count(const NgramKey & key, int32_t token, int32_t count);
    // Adds everything that another table has.
    void merge(const NgramCounts & other);

    const Entry * find(const NgramKey & key) const; // valid until the next change
    int32_t count(const Entry & entry, int32_t token) const;
    size_t n_entries() const { return entries_.size(); }
    const Entry & entry(size_t i) const { return entries_[i]; } // in the order in which they appeared

    // Calls f(token, count) for every token that followed.
    template <typename F> void each(const Entry & entry, F && f) const {
        f(entry.first_token, entry.first_count);
        for (uint32_t i = entry.more; i != none; i = pairs_[i].next) f(pairs_[i].token, pairs_[i].count);
    }

    size_t memory_bytes() const;

private:
    struct Pair {
        uint32_t entry;
        int32_t token;
        int32_t count;
        uint32_t next;
    };

    size_t key_slot(const NgramKey & key) const;
    size_t pair_slot(uint32_t entry, int32_t token) const;
    uint32_t entry_of(const NgramKey & key); // made, without any token, when it is new
    int32_t increase(uint32_t entry, int32_t token, int32_t count);
    void grow_keys();
    void grow_pairs();

    std::vector<Entry> entries_;
    std::vector<Pair> pairs_;
    // Open addressing, at most half full; as in NgramIndex, what entered last leaves first.
    std::vector<uint32_t> key_slots_, pair_slots_;
};

// llama.cpp's file of such a table ("lookup cache"): no header, native byte order, records of
//   4 x int32 n-gram (padded with -1), int32 n > 0, n x {int32 token, int32 count > 0}.
// Records of one n-gram are added up, so that files may be joined end to end. Throws FILE_FORMAT, with the offset, for
// bytes that are not such records or hold ids outside 0..n_vocab-1; name stands in the message.
NgramCounts parse_ngram_counts(std::string_view bytes, int32_t n_vocab, const std::string & name);
std::string write_ngram_counts(const NgramCounts & counts);

} // namespace pyspec
