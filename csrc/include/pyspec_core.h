/* pyspec_core.h: status and messages, jobs, model and vocabulary, context. Conventions: see pyspec.h. */
#ifndef PYSPEC_CORE_H
#define PYSPEC_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define PYSPEC_API __declspec(dllexport)
#define PYSPEC_MUST_USE
#elif defined(__GNUC__) || defined(__clang__)
#define PYSPEC_API __attribute__((visibility("default")))
#define PYSPEC_MUST_USE __attribute__((warn_unused_result))
#else
#define PYSPEC_API
#define PYSPEC_MUST_USE
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------ status and messages
 */

typedef enum pyspec_status {
    PYSPEC_OK            = 0,
    PYSPEC_FILE_FORMAT   = 1,  /* the file is missing, truncated, damaged or not GGUF */
    PYSPEC_UNSUPPORTED   = 2,  /* a valid request or file that this build or object cannot serve */
    PYSPEC_OPTION        = 3,  /* an argument is out of range, unknown or contradicts another */
    PYSPEC_PAIR_MISMATCH = 4,  /* target and draft do not fit together */
    PYSPEC_CONTEXT_FULL  = 5,  /* the tokens do not fit into n_ctx */
    PYSPEC_CANCELLED     = 6,  /* the job was cancelled; work done by this call has been undone */
    PYSPEC_OUT_OF_MEMORY = 7,  /* memory could not be reserved; the message has the numbers */
    PYSPEC_DEVICE        = 8,  /* the backend failed while computing */
    PYSPEC_BUSY          = 9,  /* another thread is using this object */
    PYSPEC_CLOSED        = 10, /* the object has been closed (used by bindings) */
    PYSPEC_FORK          = 11, /* the object was made before fork() */
    PYSPEC_INTERNAL      = 12, /* a defect of pyspec */
} pyspec_status;

/* Name of a status ("PYSPEC_OK", ...); static storage, never NULL. */
PYSPEC_API const char * pyspec_status_name(pyspec_status status);

/* Message of the last failed call on this thread; "" if none. Valid until the next pyspec call on this thread. */
PYSPEC_API const char * pyspec_last_error(void);

/* Version of the library, for example "0.1.0". Static storage. */
PYSPEC_API const char * pyspec_version(void);

/* JSON object describing the build: version, ggml version, compiler, instruction sets, backends. Static storage. */
PYSPEC_API const char * pyspec_build_info(void);

typedef enum pyspec_log_level {
    PYSPEC_LOG_DEBUG = 1,
    PYSPEC_LOG_INFO  = 2,
    PYSPEC_LOG_WARN  = 3,
    PYSPEC_LOG_ERROR = 4,
} pyspec_log_level;

/* Take the oldest line from the process-wide log ring (the last 1024 lines; older ones are dropped and counted in a
 * line). Writes at most cap-1 bytes and a NUL. Returns the length of the line (may exceed cap-1: then it was cut), or
 * -1 if the ring is empty. The library never writes to stdout or stderr. Any thread. */
PYSPEC_API int64_t pyspec_log_poll(pyspec_log_level * level, char * text, size_t cap);

/* ------------------------------------------------------------------------------------------------- long work: the job
 */

/* A job is handed to a long call; other threads may cancel it or read its progress while the call runs. Make one per
 * call (it is cheap), so that a cancelled job cannot end a later call. */
typedef struct pyspec_job pyspec_job;

PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_job_new(pyspec_job ** job);
PYSPEC_API void pyspec_job_free(pyspec_job * job);
/* Ask the call that holds this job to stop; it returns PYSPEC_CANCELLED within 0.25 s. */
PYSPEC_API void pyspec_job_cancel(pyspec_job * job);
PYSPEC_API bool pyspec_job_cancelled(const pyspec_job * job);
/* Fraction done, 0..1. */
PYSPEC_API double pyspec_job_progress(const pyspec_job * job);

/* -------------------------------------------------------------------------------------------------------------- model
 */

typedef int32_t pyspec_token;
typedef struct pyspec_model pyspec_model;

typedef struct pyspec_model_params {
    size_t struct_size;
    const char * device;  /* NULL or "cpu"; anything else is PYSPEC_UNSUPPORTED in a CPU build, with the reason */
    bool use_mmap;        /* map the weights that are not packed (default true) or read them */
    bool metadata_only;   /* read keys, tensor table and vocabulary only; contexts cannot be made */
    bool pack_weights;    /* copy the matrices into the form of the fast kernels (default true); false computes on the
                             file's bytes, without a copy: decoding takes twice, prompts 5 to 8 times as long */
    const char * kernels; /* NULL or "auto": the best this processor has; or "avx512_vnni", "avx2_vnni", "avx2",
                            "portable". Unknown names are PYSPEC_OPTION, sets that this processor cannot run
                            PYSPEC_UNSUPPORTED */
} pyspec_model_params;

PYSPEC_API void pyspec_model_params_default(pyspec_model_params * params, size_t struct_size);

/* Open a GGUF file (for a split model: its first part). Everything in the file is checked before it is used.
 * job may be NULL. Errors: FILE_FORMAT, UNSUPPORTED (architecture, tensor type, device), OPTION, OUT_OF_MEMORY,
 * CANCELLED. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_model_load(const char * path, const pyspec_model_params * params,
                                                           pyspec_job * job, pyspec_model ** model);
/* Contexts hold a reference: the weights go when the model and its last context are freed. */
PYSPEC_API void pyspec_model_free(pyspec_model * model);

typedef struct pyspec_model_info {
    size_t struct_size;
    const char * architecture; /* lives as long as the model, like every pointer here */
    const char * name;         /* general.name or "" */
    int32_t n_vocab;
    int32_t n_embd;
    int32_t n_layer;
    int32_t n_head;
    int32_t n_head_kv; /* of layer 0 */
    int32_t n_ff;      /* of layer 0 */
    int32_t n_ctx_train;
    int32_t n_expert;
    int32_t n_expert_used;
    int32_t sliding_window; /* 0 = none */
    int64_t n_params;       /* elements of all tensors */
    uint64_t file_bytes;    /* all parts */
    uint64_t weight_bytes;  /* tensor data of all parts */
    uint64_t packed_bytes;  /* of the matrices that were packed for the fast kernels; 0 = none */
    const char * kernels;   /* instruction set of the kernels: of attention, and of products with packed matrices */
} pyspec_model_info;

PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_model_get_info(const pyspec_model * model, pyspec_model_info * info,
                                                               size_t struct_size);

/* The metadata and the tensor table as one JSON object:
 *   {"metadata": {key: value, ...}, "tensors": [{"name", "type", "shape": [ggml order], "bytes", "part"}, ...]}
 * Arrays of more than 64 elements appear as {"array": type, "length": n}. Strings are the file's bytes with JSON
 * escapes for quotes, backslash and control characters; they are not checked to be UTF-8. Lives as long as the model.
 */
PYSPEC_API const char * pyspec_model_json(const pyspec_model * model);

/* String value of a metadata key with its true length, or NULL if the key is absent or not a string. Lives as long as
 * the model; NUL-terminated, but the value may hold NULs too. */
PYSPEC_API const char * pyspec_model_meta_str(const pyspec_model * model, const char * key, size_t * length);

typedef enum pyspec_token_type {
    PYSPEC_TOKEN_UNDEFINED    = 0,
    PYSPEC_TOKEN_NORMAL       = 1,
    PYSPEC_TOKEN_UNKNOWN      = 2,
    PYSPEC_TOKEN_CONTROL      = 3,
    PYSPEC_TOKEN_USER_DEFINED = 4,
    PYSPEC_TOKEN_UNUSED       = 5,
    PYSPEC_TOKEN_BYTE         = 6,
} pyspec_token_type;

/* The vocabulary in packed buffers. Text of token i is text[text_offset[i] .. text_offset[i+1]), as stored in the file
 * (byte alphabet for BPE, U+2581 for SPM), not NUL-terminated. Types already have the end-of-generation corrections
 * (tokens found by text become control and so on). Special ids are -1 when there is none. */
typedef struct pyspec_vocab {
    size_t struct_size;
    int32_t n_tokens;
    const char * kind; /* tokenizer.ggml.model: "llama", "gpt2", ... */
    const char * pre;  /* tokenizer.ggml.pre, "" when the key is missing */
    const char * text;
    const uint64_t * text_offset; /* n_tokens + 1 */
    const float * scores;         /* n_tokens; 0 when the file has none */
    const int32_t * types;        /* n_tokens, pyspec_token_type */
    int32_t n_merges;
    const char * merges;            /* "left right" each, packed like text */
    const uint64_t * merges_offset; /* n_merges + 1 */
    int32_t bos, eos, eot, eom, unk, sep, pad, mask;
    int32_t fim_pre, fim_suf, fim_mid, fim_pad, fim_rep, fim_sep;
    bool add_bos, add_eos, add_space_prefix; /* kind's default or the file's key */
    int32_t n_eog;
    const int32_t * eog; /* every token that ends a generation, ascending */
} pyspec_vocab;

/* Pointers live as long as the model. UNSUPPORTED when the file has no vocabulary. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_model_get_vocab(const pyspec_model * model, pyspec_vocab * vocab,
                                                                size_t struct_size);

/* Bytes of one token as text: byte tokens give their byte, U+2581 becomes a space (SPM), the BPE byte alphabet is
 * undone. Control and unknown tokens give nothing unless special is true. Copies at most cap bytes (no NUL); returns
 * the full length, or -1 for an id outside the vocabulary. A character may be spread over several tokens. */
PYSPEC_API int32_t pyspec_token_piece(const pyspec_model * model, pyspec_token token, bool special, char * buf,
                                      int32_t cap);
/* True when the token ends a generation; false for an id outside the vocabulary. */
PYSPEC_API bool pyspec_token_is_eog(const pyspec_model * model, pyspec_token token);

/* ------------------------------------------------------------------------------------------------------------ context
 */

typedef struct pyspec_context pyspec_context;

typedef enum pyspec_type { /* ggml's numbers */
                           PYSPEC_TYPE_F32  = 0,
                           PYSPEC_TYPE_F16  = 1,
                           PYSPEC_TYPE_Q8_0 = 8,
                           PYSPEC_TYPE_BF16 = 30,
} pyspec_type;

typedef enum pyspec_memory_kind {
    PYSPEC_MEMORY_AUTO      = 0,
    PYSPEC_MEMORY_TEST_FULL = 1, /* for tests: behaves like a memory that can only be emptied as a whole */
    PYSPEC_MEMORY_TEST_NO   = 2, /* for tests: behaves like a model without memory */
} pyspec_memory_kind;

typedef struct pyspec_context_params {
    size_t struct_size;
    int32_t n_ctx;      /* cells; 0 = the model's training context. Rounded up to a multiple of 256 internally, but no
                         * more than n_ctx tokens are accepted */
    int32_t n_batch;    /* largest number of tokens of one decode call; default 2048 */
    int32_t n_ubatch;   /* largest number of tokens computed together; default 512. Never changes results */
    int32_t n_outputs;  /* largest number of output rows of one decode call; default 64 */
    int32_t n_threads;  /* 0 = physical cores, as far as the process may use them */
    pyspec_type type_k; /* F16 (default), F32, BF16 or Q8_0 */
    pyspec_type type_v;
    pyspec_memory_kind memory_kind;
} pyspec_context_params;

PYSPEC_API void pyspec_context_params_default(pyspec_context_params * params, size_t struct_size);

typedef struct pyspec_memory_report {
    size_t struct_size;
    uint64_t weight_bytes;    /* tensor data, mapped or read */
    uint64_t cache_bytes;     /* K and V of n_ctx cells */
    uint64_t compute_bytes;   /* graph buffers for the largest micro-batch */
    uint64_t output_bytes;    /* logits and tap rows kept for the caller */
    uint64_t available_bytes; /* free physical memory of the machine now, limits of the process group included */
} pyspec_memory_report;

/* Memory that pyspec_context_new would need, computed without allocating it. Works on a metadata_only model too. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_context_memory(const pyspec_model * model,
                                                               const pyspec_context_params * params,
                                                               pyspec_memory_report * report, size_t struct_size);

/* Errors: OPTION, OUT_OF_MEMORY (with the report's numbers), UNSUPPORTED (metadata_only model, cache type). */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_context_new(pyspec_model * model, const pyspec_context_params * params,
                                                            pyspec_context ** ctx);
PYSPEC_API void pyspec_context_free(pyspec_context * ctx);

/* Values as they are in force (n_ctx resolved, n_threads resolved). */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_context_get_params(const pyspec_context * ctx,
                                                                   pyspec_context_params * params, size_t struct_size);

/* Choose hidden-state rows to export: layers[i] in 0..n_layer is the residual stream entering that layer (n_layer:
 * after the last one), PYSPEC_TAP_FINAL is the stream after the output norm. n = 0 turns taps off. Applies from the
 * next decode. */
#define PYSPEC_TAP_FINAL (-1)
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_context_set_taps(pyspec_context * ctx, const int32_t * layers,
                                                                 int32_t n);

typedef struct pyspec_batch {
    const pyspec_token * tokens; /* n_tokens ids */
    int32_t n_tokens;
    const int32_t * positions; /* n_tokens, or NULL: continue after the last position. Must be strictly increasing and
                                * greater than every position in the memory */
    const int8_t * outputs;    /* n_tokens flags, or NULL: only the last token gives logits */
} pyspec_batch;

/* Append the tokens to the memory and compute. Split into micro-batches as needed, which never changes results.
 * On any error nothing has been added: cells of finished micro-batches are removed again. Then the old output rows are
 * gone. Errors: OPTION (token id, positions, sizes), CONTEXT_FULL, CANCELLED, DEVICE, BUSY, FORK. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_decode(pyspec_context * ctx, const pyspec_batch * batch,
                                                       pyspec_job * job);

/* Output rows of the last decode in batch order. A row is {n_vocab} floats; rows are contiguous, so row 0 gives all of
 * them. NULL if i is out of range. Valid until the next decode, restore or free of this context. */
PYSPEC_API int32_t pyspec_n_outputs(const pyspec_context * ctx);
PYSPEC_API const float * pyspec_logits(const pyspec_context * ctx, int32_t i);
/* Maxima of row i in blocks of 128 logits, {(n_vocab + 127) / 128} floats, rows follow each other: what the functions
 * that choose tokens take as `maxima`. With them they need not read the row. NULL when out of range. Valid like logits.
 */
PYSPEC_API const float * pyspec_logits_maxima(const pyspec_context * ctx, int32_t i);

/* Tap rows of the last decode: {n_embd, n_tokens} floats, one row for every token of the batch, for the i-th layer
 * given to pyspec_context_set_taps. NULL if there is none. Valid like logits. */
PYSPEC_API const float * pyspec_taps(const pyspec_context * ctx, int32_t i);

/* Remove the positions [p0, p1) of a sequence; p0 < 0 means from the start, p1 < 0 to the end. seq_id is 0, or -1 for
 * all; others are OPTION. Removing a tail shortens; removing a middle range moves the cells together and keeps
 * positions. UNSUPPORTED when this memory cannot remove that range: then nothing has changed. An empty range is fine.
 */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_seq_rm(pyspec_context * ctx, int32_t seq_id, int32_t p0, int32_t p1);
/* Would pyspec_seq_rm succeed now? Always agrees with it. */
PYSPEC_API bool pyspec_can_seq_rm(const pyspec_context * ctx, int32_t seq_id, int32_t p0, int32_t p1);
/* Add delta to the positions [p0, p1) of a sequence (open ends and seq_id as in pyspec_seq_rm) and turn the K rows of
 * those tokens accordingly, rounded to the cache type once. What the tokens saw when they were decoded stays as it is.
 * OPTION when a position would become negative or not lie between those of its neighbours, UNSUPPORTED when this memory
 * cannot: then nothing has changed. An empty range is fine. The result does not depend on the number of threads. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_seq_add(pyspec_context * ctx, int32_t seq_id, int32_t p0, int32_t p1,
                                                        int32_t delta);
/* Would pyspec_seq_add succeed now? Always agrees with it. */
PYSPEC_API bool pyspec_can_seq_add(const pyspec_context * ctx, int32_t seq_id, int32_t p0, int32_t p1, int32_t delta);
/* Smallest and largest position in the memory, -1 when empty. */
PYSPEC_API int32_t pyspec_seq_pos_min(const pyspec_context * ctx, int32_t seq_id);
PYSPEC_API int32_t pyspec_seq_pos_max(const pyspec_context * ctx, int32_t seq_id);
/* Number of cells in use. */
PYSPEC_API int32_t pyspec_n_cells(const pyspec_context * ctx);

typedef enum pyspec_rollback {
    PYSPEC_ROLLBACK_NO   = 0, /* no memory: nothing can be undone */
    PYSPEC_ROLLBACK_FULL = 1, /* only everything at once */
    PYSPEC_ROLLBACK_PART = 2, /* any range */
    PYSPEC_ROLLBACK_TAIL = 3, /* a bounded tail (snapshots) */
} pyspec_rollback;

/* Find out by trying what this memory can undo: empties the memory, decodes two tokens, removes one, empties it again.
 * Destroys the memory's content, so call it on a fresh context. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_probe_rollback(pyspec_context * ctx, pyspec_rollback * result);

/* The memory as bytes: positions, K and V. A state fits a context of the same model file with the same cache types and
 * large enough n_ctx; anything else is refused before anything changes (FILE_FORMAT or OPTION). Logits are not part of
 * it. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_state_size(const pyspec_context * ctx, size_t * size);
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_state_save(const pyspec_context * ctx, void * buf, size_t cap,
                                                           size_t * written);
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_state_restore(pyspec_context * ctx, const void * buf, size_t size);

typedef struct pyspec_context_stats { /* since creation */
    size_t struct_size;
    int64_t n_decode;      /* calls of pyspec_decode that succeeded */
    int64_t n_tokens;      /* tokens of those */
    int64_t n_graph_build; /* graphs built */
    int64_t n_graph_reuse; /* micro-batches served by a kept graph */
    int64_t compute_us;    /* time inside the backend */
    int64_t decode_us;     /* time inside pyspec_decode */
} pyspec_context_stats;

PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_context_get_stats(const pyspec_context * ctx,
                                                                  pyspec_context_stats * stats, size_t struct_size);

/* How often each kernel was run since the context was created, as one JSON object: {"product.q4_K": 1680, ...}. Keys
 * without runs are left out. Products are counted by the type of the matrix:
 *   product.TYPE, experts.TYPE                     on packed weights
 *   product_unpacked.TYPE, experts_unpacked.TYPE   on weights as they lie in the file
 *   attention
 * May be called while another thread uses the context.
 * *length is what the text needs without its NUL; a buffer with less room than that and the NUL gets nothing (OPTION,
 * buf may be NULL if cap is 0, then it is no error). */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_context_kernel_runs(const pyspec_context * ctx, char * buf, size_t cap,
                                                                    size_t * length);

#ifdef __cplusplus
}
#endif
#endif /* PYSPEC_CORE_H */
