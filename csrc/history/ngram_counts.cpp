#include "history/ngram_counts.h"

#include "history/token_hash.h"
#include "support/error.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace pyspec {

namespace {

uint64_t hash_of(uint32_t entry, int32_t token) {
    const int32_t both[2] = {static_cast<int32_t>(entry), token};
    return token_hash(both, 2);
}

} // namespace

NgramKey ngram_key(const int32_t * tokens, size_t n) {
    NgramKey key = {-1, -1, -1, -1};
    std::copy_n(tokens, n, key.begin());
    return key;
}

int32_t NgramCounts::add(const NgramKey & key, int32_t token) {
    const uint32_t id         = entry_of(key);
    const int32_t best_before = entries_[id].best;
    const int32_t now         = increase(id, token, 1);
    Entry & e                 = entries_[id];
    if (e.best == no_token || now >= count(e, e.best)) e.best = token;
    return best_before;
}

void NgramCounts::take_back(const NgramKey & key, int32_t token, int32_t best_before) {
    const size_t at   = key_slot(key);
    const uint32_t id = key_slots_[at];
    Entry & e         = entries_[id];
    e.best            = best_before;
    --e.sum;
    if (token == e.first_token) {
        if (--e.first_count == 0) {
            assert(id + 1 == entries_.size());
            key_slots_[at] = none;
            entries_.pop_back();
        }
        return;
    }
    const size_t pair_at = pair_slot(id, token);
    const uint32_t pair  = pair_slots_[pair_at];
    if (--pairs_[pair].count == 0) {
        assert(pair + 1 == pairs_.size());
        e.more               = pairs_[pair].next;
        pair_slots_[pair_at] = none;
        pairs_.pop_back();
    }
}

void NgramCounts::add_count(const NgramKey & key, int32_t token, int32_t n) {
    const uint32_t id      = entry_of(key);
    const int32_t now      = increase(id, token, n);
    Entry & e              = entries_[id];
    const int32_t best_now = e.best == no_token ? 0 : count(e, e.best);
    if (now > best_now || (now == best_now && token < e.best)) e.best = token;
}

void NgramCounts::merge(const NgramCounts & other) {
    for (const Entry & e : other.entries_) {
        other.each(e, [&](int32_t token, int32_t n) { add_count(e.key, token, n); });
    }
}

const NgramCounts::Entry * NgramCounts::find(const NgramKey & key) const {
    const uint32_t id = key_slots_[key_slot(key)];
    return id == none ? nullptr : &entries_[id];
}

int32_t NgramCounts::count(const Entry & entry, int32_t token) const {
    if (token == entry.first_token) return entry.first_count;
    if (entry.more == none) return 0;
    const uint32_t pair = pair_slots_[pair_slot(static_cast<uint32_t>(&entry - entries_.data()), token)];
    return pair == none ? 0 : pairs_[pair].count;
}

size_t NgramCounts::memory_bytes() const {
    return entries_.capacity() * sizeof(Entry) + pairs_.capacity() * sizeof(Pair) +
           (key_slots_.capacity() + pair_slots_.capacity()) * sizeof(uint32_t);
}

size_t NgramCounts::key_slot(const NgramKey & key) const {
    const size_t mask = key_slots_.size() - 1;
    for (size_t i = token_hash(key.data(), key.size()) & mask;; i = (i + 1) & mask) {
        if (key_slots_[i] == none || entries_[key_slots_[i]].key == key) return i;
    }
}

size_t NgramCounts::pair_slot(uint32_t entry, int32_t token) const {
    const size_t mask = pair_slots_.size() - 1;
    for (size_t i = hash_of(entry, token) & mask;; i = (i + 1) & mask) {
        const uint32_t pair = pair_slots_[i];
        if (pair == none || (pairs_[pair].entry == entry && pairs_[pair].token == token)) return i;
    }
}

uint32_t NgramCounts::entry_of(const NgramKey & key) {
    if (2 * (entries_.size() + 1) > key_slots_.size()) grow_keys();
    uint32_t & slot = key_slots_[key_slot(key)];
    if (slot == none) {
        slot = static_cast<uint32_t>(entries_.size());
        entries_.push_back({key, 0, no_token, 0, no_token, none});
    }
    return slot;
}

// Returns the count that the token has now.
int32_t NgramCounts::increase(uint32_t id, int32_t token, int32_t n) {
    const auto raise = [&](int32_t & value) {
        const int32_t added = std::min(n, max_count - value);
        entries_[id].sum += added;
        return value += added;
    };
    if (entries_[id].first_token == no_token) entries_[id].first_token = token;
    if (entries_[id].first_token == token) return raise(entries_[id].first_count);
    if (2 * (pairs_.size() + 1) > pair_slots_.size()) grow_pairs();
    uint32_t & slot = pair_slots_[pair_slot(id, token)];
    if (slot == none) {
        slot = static_cast<uint32_t>(pairs_.size());
        pairs_.push_back({id, token, 0, entries_[id].more});
        entries_[id].more = slot;
    }
    return raise(pairs_[slot].count);
}

void NgramCounts::grow_keys() {
    const size_t size = 2 * key_slots_.size();
    key_slots_.assign(size, none);
    for (uint32_t id = 0; id < entries_.size(); ++id) key_slots_[key_slot(entries_[id].key)] = id;
}

void NgramCounts::grow_pairs() {
    const size_t size = 2 * pair_slots_.size();
    pair_slots_.assign(size, none);
    for (uint32_t id = 0; id < pairs_.size(); ++id) pair_slots_[pair_slot(pairs_[id].entry, pairs_[id].token)] = id;
}

NgramCounts parse_ngram_counts(std::string_view bytes, int32_t n_vocab, const std::string & name) {
    NgramCounts counts;
    size_t at        = 0;
    const auto wrong = [&](size_t offset, const std::string & what) {
        return Error(PYSPEC_FILE_FORMAT,
                     format("%s is not a table of n-gram counts for this model: %s at byte %zu of %zu", name.c_str(),
                            what.c_str(), offset, bytes.size()));
    };
    const auto next = [&] {
        if (bytes.size() - at < sizeof(int32_t)) throw wrong(at, "it ends inside a record");
        int32_t value;
        std::memcpy(&value, bytes.data() + at, sizeof value);
        at += sizeof value;
        return value;
    };
    const auto check_token = [&](int32_t token, size_t offset) {
        if (token < 0 || token >= n_vocab) {
            throw wrong(offset, format("token id %d (the vocabulary has %d)", token, n_vocab));
        }
    };
    while (at < bytes.size()) {
        const size_t record = at;
        NgramKey key;
        for (int32_t & token : key) token = next();
        const size_t n = static_cast<size_t>(std::find(key.begin(), key.end(), -1) - key.begin());
        if (n == 0 ||
            std::any_of(key.begin() + static_cast<std::ptrdiff_t>(n), key.end(), [](int32_t t) { return t != -1; })) {
            throw wrong(record, "an n-gram that is empty or has a gap");
        }
        for (size_t i = 0; i < n; ++i) check_token(key[i], record + 4 * i);
        const int32_t n_tokens = next();
        if (n_tokens <= 0) throw wrong(at - 4, format("%d tokens after an n-gram", n_tokens));
        for (int32_t i = 0; i < n_tokens; ++i) {
            const int32_t token = next();
            check_token(token, at - 4);
            const int32_t count = next();
            if (count <= 0) throw wrong(at - 4, format("a count of %d", count));
            counts.add_count(key, token, count);
        }
    }
    return counts;
}

std::string write_ngram_counts(const NgramCounts & counts) {
    std::string bytes;
    const auto put = [&](const void * data, size_t n) { bytes.append(static_cast<const char *>(data), n); };
    for (size_t i = 0; i < counts.n_entries(); ++i) {
        const NgramCounts::Entry & e = counts.entry(i);
        put(e.key.data(), sizeof e.key);
        const size_t at  = bytes.size();
        int32_t n_tokens = 0;
        put(&n_tokens, sizeof n_tokens);
        counts.each(e, [&](int32_t token, int32_t n) {
            put(&token, sizeof token);
            put(&n, sizeof n);
            ++n_tokens;
        });
        std::memcpy(bytes.data() + at, &n_tokens, sizeof n_tokens);
    }
    return bytes;
}

} // namespace pyspec
