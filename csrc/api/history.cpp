#include "api/handles.h"
#include "history/suffix_drafter.h"

#include <algorithm>

using namespace pyspec;
using namespace pyspec::api;

struct pyspec_suffix {
    SuffixDrafter drafter;
};

namespace {

pyspec_suffix_params default_params() {
    const SuffixDrafterParams d;
    pyspec_suffix_params params{};
    params.struct_size   = sizeof params;
    params.max_draft     = d.max_draft;
    params.memory_tokens = d.memory_tokens;
    return params;
}

SuffixDrafterParams from_c(const pyspec_suffix_params * params) {
    const pyspec_suffix_params p =
        params == nullptr ? default_params() : read_struct(params, default_params(), "params");
    if (p.n_end < 0) throw Error(PYSPEC_OPTION, format("n_end is %d, expected 0 or more", p.n_end));
    if (p.n_end > 0) need(p.end_tokens, "end_tokens");
    SuffixDrafterParams out;
    out.max_draft     = p.max_draft;
    out.memory_tokens = p.memory_tokens;
    out.end_tokens.assign(p.end_tokens, p.end_tokens + p.n_end);
    return out;
}

void need_tokens(const pyspec_token * tokens, int64_t n) {
    if (n > 0) need(tokens, "tokens");
}

void write_guess(pyspec_suffix * suffix, int32_t limit, float min_product, pyspec_token * tokens, float * confidence,
                 int32_t * n) {
    const std::vector<Guess> & draft = suffix->drafter.draft(limit, static_cast<double>(min_product));
    for (size_t i = 0; i < draft.size(); ++i) {
        tokens[i]     = draft[i].token;
        confidence[i] = draft[i].confidence;
    }
    *n = static_cast<int32_t>(draft.size());
}

} // namespace

void pyspec_suffix_params_default(pyspec_suffix_params * params, size_t struct_size) {
    if (params != nullptr) write_struct(params, default_params(), struct_size, "params");
}

pyspec_status pyspec_suffix_new(const pyspec_suffix_params * params, pyspec_suffix ** suffix) {
    return guarded([&] {
        need(suffix, "suffix");
        *suffix = new pyspec_suffix{SuffixDrafter(from_c(params))};
    });
}

void pyspec_suffix_free(pyspec_suffix * suffix) {
    delete suffix;
}

pyspec_status pyspec_suffix_follow(pyspec_suffix * suffix, int64_t start, const pyspec_token * tokens, int64_t n) {
    return guarded([&] {
        need(suffix, "suffix");
        need_tokens(tokens, n);
        suffix->drafter.follow(start, tokens, n);
    });
}

pyspec_status pyspec_suffix_append(pyspec_suffix * suffix, const pyspec_token * tokens, int64_t n) {
    return guarded([&] {
        need(suffix, "suffix");
        need_tokens(tokens, n);
        suffix->drafter.append(tokens, n);
    });
}

pyspec_status pyspec_suffix_truncate(pyspec_suffix * suffix, int64_t n) {
    return guarded([&] {
        need(suffix, "suffix");
        suffix->drafter.truncate(n);
    });
}

pyspec_status pyspec_suffix_undo(pyspec_suffix * suffix, int64_t n) {
    return guarded([&] {
        need(suffix, "suffix");
        suffix->drafter.undo(n);
    });
}

int64_t pyspec_suffix_undoable(const pyspec_suffix * suffix) {
    return suffix == nullptr ? 0 : suffix->drafter.undoable();
}

pyspec_status pyspec_suffix_remove(pyspec_suffix * suffix, int64_t begin, int64_t end) {
    return guarded([&] {
        need(suffix, "suffix");
        suffix->drafter.remove(begin, end);
    });
}

pyspec_status pyspec_suffix_add_document(pyspec_suffix * suffix, const pyspec_token * tokens, int64_t n) {
    return guarded([&] {
        need(suffix, "suffix");
        need_tokens(tokens, n);
        suffix->drafter.add_document(tokens, n);
    });
}

pyspec_status pyspec_suffix_add_corpus(pyspec_suffix * suffix, const pyspec_token * tokens, const int64_t * ends,
                                       int64_t n_documents) {
    return guarded([&] {
        need(suffix, "suffix");
        if (n_documents > 0) {
            need(ends, "ends");
            need_tokens(tokens, ends[n_documents - 1]);
        }
        suffix->drafter.add_corpus(tokens, ends, n_documents);
    });
}

pyspec_status pyspec_suffix_reset(pyspec_suffix * suffix) {
    return guarded([&] {
        need(suffix, "suffix");
        suffix->drafter.reset();
    });
}

pyspec_status pyspec_suffix_draft(pyspec_suffix * suffix, int64_t n_history, pyspec_token last, int32_t limit,
                                  float min_product, pyspec_token * tokens, float * confidence, int32_t * n) {
    return guarded([&] {
        need(suffix, "suffix");
        need(tokens, "tokens");
        need(confidence, "confidence");
        need(n, "n");
        suffix->drafter.follow(n_history, &last, 1);
        write_guess(suffix, limit, min_product, tokens, confidence, n);
    });
}

pyspec_status pyspec_suffix_guess(pyspec_suffix * suffix, int32_t limit, float min_product, pyspec_token * tokens,
                                  float * confidence, int32_t * n) {
    return guarded([&] {
        need(suffix, "suffix");
        need(tokens, "tokens");
        need(confidence, "confidence");
        need(n, "n");
        write_guess(suffix, limit, min_product, tokens, confidence, n);
    });
}

int64_t pyspec_suffix_n_tokens(const pyspec_suffix * suffix) {
    return suffix == nullptr ? 0 : suffix->drafter.n_tokens();
}

const pyspec_token * pyspec_suffix_tokens(const pyspec_suffix * suffix) {
    return suffix == nullptr ? nullptr : suffix->drafter.tokens();
}

pyspec_status pyspec_suffix_get_info(const pyspec_suffix * suffix, pyspec_suffix_info * info, size_t struct_size) {
    return guarded([&] {
        need(suffix, "suffix");
        pyspec_suffix_info out{};
        out.n_indexed     = suffix->drafter.n_indexed();
        out.n_states      = suffix->drafter.n_states();
        out.n_transitions = suffix->drafter.n_transitions();
        out.n_corpora     = suffix->drafter.n_corpora();
        out.memory_bytes  = suffix->drafter.memory_bytes();
        write_struct(info, out, struct_size, "info");
    });
}
