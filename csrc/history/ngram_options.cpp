#include "history/ngram_options.h"

#include "history/ngram_cache.h"
#include "history/ngram_map.h"
#include "history/ngram_mod.h"
#include "history/ngram_simple.h"
#include "support/error.h"

namespace pyspec {

namespace {

constexpr int32_t max_tokens = 1024; // of n-grams and of drafts

size_t in_range(const char * name, int32_t value, int32_t low, int32_t high) {
    if (value < low || value > high) {
        throw Error(PYSPEC_OPTION, format("%s is %d, expected %d..%d", name, value, low, high));
    }
    return static_cast<size_t>(value);
}

Error unknown_kind(pyspec_ngram_kind kind) {
    return Error(PYSPEC_OPTION, format("kind %d is no kind of n-gram drafter", static_cast<int>(kind)));
}

} // namespace

pyspec_ngram_params ngram_defaults(pyspec_ngram_kind kind) {
    pyspec_ngram_params p{};
    p.struct_size = sizeof p;
    p.kind        = kind;
    switch (kind) {
    case PYSPEC_NGRAM_SIMPLE:
    case PYSPEC_NGRAM_MAP_K:
    case PYSPEC_NGRAM_MAP_K4V:
        p.n        = 3;
        p.m        = kind == PYSPEC_NGRAM_MAP_K4V ? 4 : 16;
        p.min_hits = kind == PYSPEC_NGRAM_SIMPLE ? 0 : 1;
        return p;
    case PYSPEC_NGRAM_MOD:
        p.n         = 4;
        p.n_min     = 2;
        p.m         = 16;
        p.n_entries = 1 << 17;
        return p;
    case PYSPEC_NGRAM_CACHE:
        p.m = 8;
        return p;
    }
    throw unknown_kind(kind);
}

std::unique_ptr<NgramDrafter> make_ngram_drafter(const pyspec_ngram_params & p) {
    const size_t m = in_range("m", p.m, 1, max_tokens);
    if (p.kind == PYSPEC_NGRAM_CACHE) {
        in_range("n_vocab", p.n_vocab, 1, INT32_MAX);
        return std::make_unique<NgramCache>(m, p.n_vocab, p.learn);
    }
    const size_t n = in_range("n", p.n, 1, max_tokens);
    switch (p.kind) {
    case PYSPEC_NGRAM_SIMPLE:
        return std::make_unique<NgramSimple>(n, m);
    case PYSPEC_NGRAM_MAP_K:
        return std::make_unique<NgramMapK>(n, m, in_range("min_hits", p.min_hits, 1, max_tokens));
    case PYSPEC_NGRAM_MAP_K4V:
        return std::make_unique<NgramMapK4v>(n, m, in_range("min_hits", p.min_hits, 1, max_tokens));
    case PYSPEC_NGRAM_MOD:
        return std::make_unique<NgramMod>(n, in_range("n_min", p.n_min, 0, p.m), m,
                                          in_range("n_entries", p.n_entries, 1024, 1 << 24));
    default:
        throw unknown_kind(p.kind);
    }
}

} // namespace pyspec
