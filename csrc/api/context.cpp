#include "api/handles.h"

#include <algorithm>
#include <climits>
#include <cstring>

using namespace pyspec;
using namespace pyspec::api;

namespace {

pyspec_context_params to_c(const ContextOptions & options) {
    pyspec_context_params params{};
    params.struct_size = sizeof params;
    params.n_ctx       = options.n_ctx;
    params.n_batch     = options.n_batch;
    params.n_ubatch    = options.n_ubatch;
    params.n_outputs   = options.n_outputs;
    params.n_threads   = options.n_threads;
    params.type_k      = static_cast<pyspec_type>(options.type_k);
    params.type_v      = static_cast<pyspec_type>(options.type_v);
    params.memory_kind = options.memory_kind;
    return params;
}

ContextOptions from_c(const pyspec_context_params * params) {
    ContextOptions options;
    if (params == nullptr) {
        return options;
    }
    const pyspec_context_params p = read_struct(params, to_c(options), "params");
    options.n_ctx                 = p.n_ctx;
    options.n_batch               = p.n_batch;
    options.n_ubatch              = p.n_ubatch;
    options.n_outputs             = p.n_outputs;
    options.n_threads             = p.n_threads;
    options.type_k                = static_cast<ggml_type>(p.type_k);
    options.type_v                = static_cast<ggml_type>(p.type_v);
    options.memory_kind           = p.memory_kind;
    return options;
}

void check_seq_id(int32_t seq_id) {
    if (seq_id != 0 && seq_id != -1) {
        throw Error(PYSPEC_OPTION, format("seq_id is %d; a context holds one sequence: use 0, or -1 for all", seq_id));
    }
}

bool is_open(const pyspec_context * ctx) {
    return ctx != nullptr && ctx->pid == process_id();
}

} // namespace

void pyspec_context_params_default(pyspec_context_params * params, size_t struct_size) {
    if (params != nullptr) {
        write_struct(params, to_c(ContextOptions{}), struct_size, "params");
    }
}

pyspec_status pyspec_context_memory(const pyspec_model * model, const pyspec_context_params * params,
                                    pyspec_memory_report * report, size_t struct_size) {
    return guarded([&] {
        need(model, "model");
        const MemoryReport r = Context::estimate(model->model, from_c(params));
        pyspec_memory_report out{};
        out.weight_bytes    = r.weight_bytes;
        out.cache_bytes     = r.cache_bytes;
        out.compute_bytes   = r.compute_bytes;
        out.output_bytes    = r.output_bytes;
        out.available_bytes = r.available_bytes;
        write_struct(report, out, struct_size, "report");
    });
}

pyspec_status pyspec_context_new(pyspec_model * model, const pyspec_context_params * params, pyspec_context ** ctx) {
    return guarded([&] {
        check_process(model, "model");
        need(ctx, "ctx");
        auto handle     = std::make_unique<pyspec_context>();
        handle->context = std::make_unique<Context>(model->model, from_c(params));
        *ctx            = handle.release();
    });
}

void pyspec_context_free(pyspec_context * ctx) {
    if (ctx != nullptr && ctx->pid != process_id()) {
        (void)ctx->context.release(); // its threads belong to the parent: joining them here would wait for ever
    }
    delete ctx;
}

pyspec_status pyspec_context_get_params(const pyspec_context * ctx, pyspec_context_params * params,
                                        size_t struct_size) {
    return guarded([&] {
        check_process(ctx, "context");
        write_struct(params, to_c(ctx->context->options()), struct_size, "params");
    });
}

pyspec_status pyspec_context_set_taps(pyspec_context * ctx, const int32_t * layers, int32_t n) {
    return guarded([&] {
        InUse use(ctx);
        if (n != 0) {
            need(layers, "layers");
        }
        ctx->context->set_taps(layers, n);
    });
}

pyspec_status pyspec_decode(pyspec_context * ctx, const pyspec_batch * batch, pyspec_job * job) {
    return guarded([&] {
        InUse use(ctx);
        need(batch, "batch");
        ctx->context->decode({batch->tokens, batch->n_tokens, batch->positions, batch->outputs},
                             job == nullptr ? nullptr : &job->job);
    });
}

int32_t pyspec_n_outputs(const pyspec_context * ctx) {
    return is_open(ctx) ? ctx->context->n_outputs() : 0;
}

const float * pyspec_logits(const pyspec_context * ctx, int32_t i) {
    return is_open(ctx) ? ctx->context->logits(i) : nullptr;
}

const float * pyspec_logits_maxima(const pyspec_context * ctx, int32_t i) {
    return is_open(ctx) ? ctx->context->logits_maxima(i) : nullptr;
}

const float * pyspec_taps(const pyspec_context * ctx, int32_t i) {
    return is_open(ctx) ? ctx->context->taps(i) : nullptr;
}

pyspec_status pyspec_seq_rm(pyspec_context * ctx, int32_t seq_id, int32_t p0, int32_t p1) {
    return guarded([&] {
        InUse use(ctx);
        check_seq_id(seq_id);
        if (!ctx->context->remove(p0, p1)) {
            throw Error(PYSPEC_UNSUPPORTED,
                        format("this memory cannot remove positions [%d, %d); it holds %d to %d", p0, p1,
                               ctx->context->memory().pos_min(), ctx->context->memory().pos_max()));
        }
    });
}

bool pyspec_can_seq_rm(const pyspec_context * ctx, int32_t seq_id, int32_t p0, int32_t p1) {
    return is_open(ctx) && (seq_id == 0 || seq_id == -1) && ctx->context->can_remove(p0, p1);
}

pyspec_status pyspec_seq_add(pyspec_context * ctx, int32_t seq_id, int32_t p0, int32_t p1, int32_t delta) {
    return guarded([&] {
        InUse use(ctx);
        check_seq_id(seq_id);
        ctx->context->shift(p0, p1, delta);
    });
}

bool pyspec_can_seq_add(const pyspec_context * ctx, int32_t seq_id, int32_t p0, int32_t p1, int32_t delta) {
    return is_open(ctx) && (seq_id == 0 || seq_id == -1) && ctx->context->check_shift(p0, p1, delta) == Move::possible;
}

int32_t pyspec_seq_pos_min(const pyspec_context * ctx, int32_t seq_id) {
    return is_open(ctx) && (seq_id == 0 || seq_id == -1) ? ctx->context->memory().pos_min() : -1;
}

int32_t pyspec_seq_pos_max(const pyspec_context * ctx, int32_t seq_id) {
    return is_open(ctx) && (seq_id == 0 || seq_id == -1) ? ctx->context->memory().pos_max() : -1;
}

int32_t pyspec_n_cells(const pyspec_context * ctx) {
    return is_open(ctx) ? ctx->context->memory().n_used() : 0;
}

pyspec_status pyspec_probe_rollback(pyspec_context * ctx, pyspec_rollback * result) {
    return guarded([&] {
        InUse use(ctx);
        need(result, "result");
        *result = static_cast<pyspec_rollback>(ctx->context->probe_rollback());
    });
}

pyspec_status pyspec_state_size(const pyspec_context * ctx, size_t * size) {
    return guarded([&] {
        InUse use(ctx);
        need(size, "size");
        *size = ctx->context->state_size();
    });
}

pyspec_status pyspec_state_save(const pyspec_context * ctx, void * buf, size_t cap, size_t * written) {
    return guarded([&] {
        InUse use(ctx);
        need(buf, "buf");
        need(written, "written");
        const size_t size = ctx->context->state_size();
        if (cap < size) {
            throw Error(PYSPEC_OPTION, format("the state needs %zu bytes, the buffer has %zu", size, cap));
        }
        ctx->context->state_save(static_cast<uint8_t *>(buf));
        *written = size;
    });
}

pyspec_status pyspec_state_restore(pyspec_context * ctx, const void * buf, size_t size) {
    return guarded([&] {
        InUse use(ctx);
        need(buf, "buf");
        ctx->context->state_restore(static_cast<const uint8_t *>(buf), size);
    });
}

pyspec_status pyspec_context_get_stats(const pyspec_context * ctx, pyspec_context_stats * stats, size_t struct_size) {
    return guarded([&] {
        InUse use(ctx);
        const ContextStats s = ctx->context->stats();
        pyspec_context_stats out{};
        out.n_decode      = s.n_decode;
        out.n_tokens      = s.n_tokens;
        out.n_graph_build = s.n_graph_build;
        out.n_graph_reuse = s.n_graph_reuse;
        out.compute_us    = s.compute_us;
        out.decode_us     = s.decode_us;
        write_struct(stats, out, struct_size, "stats");
    });
}

pyspec_status pyspec_context_kernel_runs(const pyspec_context * ctx, char * buf, size_t cap, size_t * length) {
    return guarded([&] {
        check_process(ctx, "context");
        need(length, "length");
        const std::string text = kernel_runs_json(ctx->context->kernel_counters());
        *length                = text.size();
        if (cap == 0) {
            return;
        }
        need(buf, "buf");
        if (cap <= text.size()) {
            throw Error(PYSPEC_OPTION, format("the text needs %zu bytes, the buffer has %zu", text.size() + 1, cap));
        }
        std::memcpy(buf, text.c_str(), text.size() + 1);
    });
}
