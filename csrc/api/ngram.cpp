#include "api/handles.h"
#include "history/ngram_cache.h"
#include "history/ngram_options.h"

#include <algorithm>

using namespace pyspec;
using namespace pyspec::api;

struct pyspec_ngram {
    std::unique_ptr<NgramDrafter> drafter;
};

namespace {

size_t size_of(int64_t n, const void * data, const char * name) {
    if (n < 0) throw Error(PYSPEC_OPTION, format("n_%s is %lld, expected 0 or more", name, static_cast<long long>(n)));
    if (n > 0) need(data, name);
    return static_cast<size_t>(n);
}

NgramDrafter & drafter_of(const pyspec_ngram * ngram) {
    need(ngram, "ngram");
    return *ngram->drafter;
}

NgramCache & cache_of(const pyspec_ngram * ngram) {
    auto * cache = dynamic_cast<NgramCache *>(&drafter_of(ngram));
    if (cache == nullptr) throw Error(PYSPEC_OPTION, "only PYSPEC_NGRAM_CACHE has tables of counts");
    return *cache;
}

} // namespace

pyspec_status pyspec_ngram_params_default(pyspec_ngram_params * params, pyspec_ngram_kind kind, size_t struct_size) {
    return guarded([&] { write_struct(params, ngram_defaults(kind), struct_size, "params"); });
}

pyspec_status pyspec_ngram_new(const pyspec_ngram_params * params, pyspec_ngram ** ngram) {
    return guarded([&] {
        need(params, "params");
        need(ngram, "ngram");
        const pyspec_ngram_params p = read_struct(params, ngram_defaults(params->kind), "params");
        *ngram                      = new pyspec_ngram{make_ngram_drafter(p)};
    });
}

void pyspec_ngram_free(pyspec_ngram * ngram) {
    delete ngram;
}

pyspec_status pyspec_ngram_begin(pyspec_ngram * ngram, const pyspec_token * tokens, int64_t n_tokens) {
    return guarded([&] { drafter_of(ngram).begin(tokens, size_of(n_tokens, tokens, "tokens")); });
}

pyspec_status pyspec_ngram_propose(pyspec_ngram * ngram, int64_t n_history, pyspec_token last, int32_t limit,
                                   pyspec_token * draft, float * confidence, int32_t * n_draft) {
    return guarded([&] {
        NgramDrafter & drafter = drafter_of(ngram);
        need(draft, "draft");
        need(confidence, "confidence");
        need(n_draft, "n_draft");
        if (n_history != static_cast<int64_t>(drafter.history().size())) {
            *n_draft = -1;
            return;
        }
        const NgramDraft & made = drafter.propose(last, static_cast<size_t>(std::max(0, limit)));
        std::copy(made.tokens.begin(), made.tokens.end(), draft);
        for (size_t i = 0; i < made.tokens.size(); ++i) confidence[i] = drafter.confidence(i);
        *n_draft = static_cast<int32_t>(made.tokens.size());
    });
}

pyspec_status pyspec_ngram_commit(pyspec_ngram * ngram, const pyspec_token * kept, int64_t n_kept,
                                  const pyspec_token * emitted, int64_t n_emitted, int32_t n_own_draft,
                                  int32_t n_own_accepted) {
    return guarded([&] {
        NgramDrafter & drafter = drafter_of(ngram);
        if (n_own_accepted < 0 || n_own_accepted > n_own_draft) {
            throw Error(PYSPEC_OPTION, format("%d of %d drafted tokens accepted", n_own_accepted, n_own_draft));
        }
        drafter.commit(kept, size_of(n_kept, kept, "kept"), emitted, size_of(n_emitted, emitted, "emitted"),
                       static_cast<size_t>(n_own_draft), static_cast<size_t>(n_own_accepted));
    });
}

pyspec_status pyspec_ngram_truncate(pyspec_ngram * ngram, int64_t n_tokens, bool withdrawn) {
    return guarded([&] { drafter_of(ngram).truncate(static_cast<size_t>(std::max<int64_t>(0, n_tokens)), withdrawn); });
}

pyspec_status pyspec_ngram_remove(pyspec_ngram * ngram, int64_t first, int64_t end) {
    return guarded([&] {
        if (first < 0 || end < first) {
            throw Error(PYSPEC_OPTION, format("a range from %lld to %lld", static_cast<long long>(first),
                                              static_cast<long long>(end)));
        }
        drafter_of(ngram).remove(static_cast<size_t>(first), static_cast<size_t>(end));
    });
}

int64_t pyspec_ngram_history(const pyspec_ngram * ngram, pyspec_token * tokens, int64_t cap) {
    if (ngram == nullptr) return 0;
    const std::vector<int32_t> & history = ngram->drafter->history();
    if (tokens != nullptr && cap > 0) {
        std::copy_n(history.begin(), std::min(history.size(), static_cast<size_t>(cap)), tokens);
    }
    return static_cast<int64_t>(history.size());
}

uint64_t pyspec_ngram_memory(const pyspec_ngram * ngram) {
    return ngram == nullptr ? 0 : sizeof(pyspec_ngram) + ngram->drafter->memory_bytes();
}

pyspec_status pyspec_ngram_load(pyspec_ngram * ngram, pyspec_ngram_table table, const void * bytes, size_t n_bytes,
                                const char * name) {
    return guarded([&] {
        NgramCache & cache = cache_of(ngram);
        if (n_bytes > 0) need(bytes, "bytes");
        const std::string_view content(static_cast<const char *>(bytes), n_bytes);
        const std::string shown = name == nullptr ? "this" : name;
        if (table == PYSPEC_NGRAM_DYNAMIC) {
            cache.load_dynamic(content, shown);
        } else if (table == PYSPEC_NGRAM_STATIC) {
            cache.load_static(content, shown);
        } else {
            throw Error(PYSPEC_OPTION, "only the dynamic and the static table can be loaded");
        }
    });
}

pyspec_status pyspec_ngram_save(const pyspec_ngram * ngram, pyspec_ngram_table table, void * bytes, size_t cap,
                                size_t * n_bytes) {
    return guarded([&] {
        const NgramCache & cache = cache_of(ngram);
        need(n_bytes, "n_bytes");
        std::string content;
        switch (table) {
        case PYSPEC_NGRAM_CONTEXT:
            content = write_ngram_counts(cache.context_counts());
            break;
        case PYSPEC_NGRAM_DYNAMIC:
            content = write_ngram_counts(cache.dynamic_counts());
            break;
        case PYSPEC_NGRAM_STATIC:
            content = write_ngram_counts(cache.static_counts());
            break;
        case PYSPEC_NGRAM_LEARNT:
            content = cache.save_dynamic();
            break;
        default:
            throw Error(PYSPEC_OPTION, format("%d is no table", static_cast<int>(table)));
        }
        if (content.size() > cap) {
            *n_bytes = content.size();
            if (bytes == nullptr) return;
            throw Error(PYSPEC_OPTION, format("%zu bytes are needed, the buffer has %zu", content.size(), cap));
        }
        if (!content.empty()) {
            need(bytes, "bytes");
            std::memcpy(bytes, content.data(), content.size());
        }
        *n_bytes = content.size();
    });
}
