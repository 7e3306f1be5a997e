// Memory kinds that exist so that tests can see what a session does when undo is limited (pyspec_memory_kind).
#pragma once

#include "memory/kv_cache.h"

namespace pyspec {

// Can only be emptied as a whole, like a recurrent state without snapshots.
class FullRemovalOnlyCache : public KvCache {
public:
    using KvCache::KvCache;
    bool can_remove(int32_t p0, int32_t p1) const override {
        return n_used() == 0 || p0 > pos_max() || (p0 <= pos_min() && p1 > pos_max());
    }
    bool remove(int32_t p0, int32_t p1) override { return can_remove(p0, p1) && KvCache::remove(p0, p1); }
    Move check_move(int32_t, int32_t, int32_t) const override { return Move::unsupported; }
};

// Cannot undo anything.
class NoRemovalCache : public KvCache {
public:
    using KvCache::KvCache;
    bool can_remove(int32_t, int32_t) const override { return false; }
    bool remove(int32_t, int32_t) override { return false; }
    Move check_move(int32_t, int32_t, int32_t) const override { return Move::unsupported; }
};

} // namespace pyspec
