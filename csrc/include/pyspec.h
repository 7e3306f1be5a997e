/* pyspec.h: the C interface of pyspec, a runtime for GGUF language models with speculative decoding.
 *
 * What is here: model, context (decode, memory, state), sampler, acceptance, token pieces, token histories to draft
 * from. What is not: tokenising text, drafters and the speculative round. Those are Python (package `pyspec`) and use
 * this interface; a C program feeds token ids and reads token ids and pieces.
 *
 * A minimal program:
 *
 *     pyspec_model_params mp;    pyspec_model_params_default(&mp, sizeof mp);
 *     pyspec_context_params cp;  pyspec_context_params_default(&cp, sizeof cp);
 *     pyspec_model * model = NULL;  pyspec_context * ctx = NULL;
 *     if (pyspec_model_load("model.gguf", &mp, NULL, &model) != PYSPEC_OK) { puts(pyspec_last_error()); return 1; }
 *     if (pyspec_context_new(model, &cp, &ctx) != PYSPEC_OK)               { puts(pyspec_last_error()); return 1; }
 *     pyspec_token prompt[] = {1, 2, 3};
 *     pyspec_batch batch = {.tokens = prompt, .n_tokens = 3, .positions = NULL, .outputs = NULL};
 *     pyspec_decode(ctx, &batch, NULL);               // output rows: the last token only, since outputs is NULL
 *     const float * logits = pyspec_logits(ctx, 0);   // n_vocab floats
 *     pyspec_context_free(ctx);
 *     pyspec_model_free(model);
 *
 * Conventions
 * - Status: functions that can fail return pyspec_status; the result may not be ignored. On failure the message for a
 *   person is pyspec_last_error() of the same thread, output arguments are untouched unless said otherwise, and the
 *   object stays usable unless its documentation says otherwise. No function unwinds, aborts or installs a signal
 * handler.
 * - Ownership: *_new / *_load / *_clone give an object to the caller, who frees it with the matching *_free (NULL is
 * fine). Pointers returned by getters are borrowed; each says how long they live.
 * - Threads: a model may be used by any number of threads. A context or sampler is for one thread at a time; a second
 *   thread inside the same context gets PYSPEC_BUSY. pyspec_job functions may be called from any thread at any time.
 *   Objects do not survive fork(): in the child every call on them returns PYSPEC_FORK and *_free only forgets them.
 * - Structs: every options struct starts with struct_size, filled by its *_default function. A library that is newer
 * than the caller reads only the fields the caller knows. Info structs work the same way in the other direction.
 * - Units: times are microseconds (int64_t, monotonic clock), sizes are bytes. Shapes are written in ggml order
 *   (first number contiguous).
 */
#ifndef PYSPEC_H
#define PYSPEC_H

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

/* ------------------------------------------------------------------------------------------------------------ sampler
 */

/* Order of the filters: mask, logit bias, penalties, DRY, top-n-sigma, top-k, typical, top-p, min-p, XTC, temperature
 * (dynamic or not); then the choice. With mirostat: mask, logit bias, penalties, DRY, temperature, mirostat's cut.
 * temperature <= 0 takes the largest logit after mask, bias, penalties and DRY. temperature > 0 draws by Gumbel-max
 * over the surviving candidates: argmax(log p + g), where g is keyed noise of (seed, logical index, token id): the
 * choice does not depend on how many rows were sampled, on drafts or on time. XTC's coin is keyed likewise. Ties always
 * go to the lowest id.
 *
 * Masks: one bit for each token, bit t % 32 of word t / 32, set = allowed; {(n_vocab + 31) / 32} words for a row. NULL
 * allows all. What a mask forbids counts as -infinity before everything else, whatever stands in the row. */
typedef struct pyspec_sampler pyspec_sampler;

typedef struct pyspec_sampler_params {
    size_t struct_size;
    float temperature;       /* default 0.8 */
    int32_t top_k;           /* default 40; <= 0 = off */
    float top_p;             /* default 0.95; >= 1 = off */
    float min_p;             /* default 0.05; <= 0 = off */
    float typical_p;         /* default 1; >= 1 = off */
    float repeat_penalty;    /* default 1 = off */
    float frequency_penalty; /* default 0 = off */
    float presence_penalty;  /* default 0 = off */
    int32_t penalty_last_n;  /* default 64; 0 = penalties off, -1 = the whole history */
    uint64_t seed;
    int32_t n_logit_bias;
    const pyspec_token * logit_bias_token; /* n_logit_bias ids; copied */
    const float * logit_bias_value;        /* added to the logit; -infinity forbids the token */
    int32_t min_keep;      /* default 0; typical, top-p, min-p and XTC leave at least as many candidates */
    float top_n_sigma;     /* default -1; <= 0 = off. Keeps logits at most so many standard deviations below the best */
    float xtc_probability; /* default 0 = off; chance of removing the top choices but the least likely of them */
    float xtc_threshold;   /* default 0.1; what counts as a top choice; above 0.5 = off */
    float dynatemp_range;  /* default 0 = off; the temperature moves by so much with the entropy */
    float dynatemp_exponent; /* default 1 */
    int32_t mirostat;        /* default 0 = off; 2 = mirostat 2.0 instead of the filters. They must be off or at their
                                defaults, which then count as off */
    float mirostat_tau;      /* default 5; the surprise aimed at, in bits */
    float mirostat_eta;      /* default 0.1; how fast it gets there */
    float dry_multiplier;    /* default 0 = off */
    float dry_base;          /* default 1.75 */
    int32_t dry_allowed_length; /* default 2; repetitions of fewer tokens cost nothing */
    int32_t dry_penalty_last_n; /* default 64; how far back repetitions are sought, 0 = off, -1 = the whole history */
    int32_t n_dry_breakers;     /* token sequences that repetitions do not reach across; default none */
    const int32_t * dry_breaker_length;      /* n_dry_breakers lengths, >= 1; copied */
    const pyspec_token * dry_breaker_tokens; /* the sequences, one after the other; copied */
} pyspec_sampler_params;

PYSPEC_API void pyspec_sampler_params_default(pyspec_sampler_params * params, size_t struct_size);

/* OPTION names the field that is out of range (NaN, penalty_last_n < -1, bias id outside 0..n_vocab), or the filter
 * that mirostat excludes. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_new(const pyspec_sampler_params * params, int32_t n_vocab,
                                                            pyspec_sampler ** sampler);
PYSPEC_API void pyspec_sampler_free(pyspec_sampler * sampler);
/* Full copy: settings, history, logical index, mirostat's state. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_clone(const pyspec_sampler * sampler, pyspec_sampler ** copy);

/* Choose a token for the next logical index; changes nothing in the sampler. logits: {n_vocab}. OPTION when every
 * candidate is forbidden or a logit is NaN or +infinity. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_sample(const pyspec_sampler * sampler, const float * logits,
                                                               const uint32_t * mask, pyspec_token * token);
/* Tell the sampler that a token was emitted: history grows, logical index + 1. prompt = true: only the history grows
 * (the token belongs to the prompt). OPTION with mirostat when the token is not of the prompt: its state follows the
 * row too. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_advance(pyspec_sampler * sampler, pyspec_token token,
                                                                bool prompt);
/* The same for a token that was emitted from this row; works with every setting. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_advance_from(pyspec_sampler * sampler, const float * logits,
                                                                     const uint32_t * mask, pyspec_token token);
/* Undo the last n advances, prompt or not. OPTION (and no change) when fewer are known. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_rollback(pyspec_sampler * sampler, int32_t n);
PYSPEC_API bool pyspec_sampler_can_rollback(const pyspec_sampler * sampler, int32_t n);
/* Make this sampler equal to another of the same settings (taken earlier by clone). */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_restore(pyspec_sampler * sampler, const pyspec_sampler * from);
/* Empty history, logical index 0. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_reset(pyspec_sampler * sampler);
/* Advances so far (prompt included) and the logical index of the next emitted token. */
PYSPEC_API int64_t pyspec_sampler_n_history(const pyspec_sampler * sampler);
PYSPEC_API int64_t pyspec_sampler_index(const pyspec_sampler * sampler);

/* The candidates that survive the filters for these logits, highest probability first (ties: lowest id), with their
 * probabilities. Writes at most cap entries, *n is the full number. With temperature <= 0: one entry of probability 1.
 */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_candidates(const pyspec_sampler * sampler, const float * logits,
                                                                   const uint32_t * mask, pyspec_token * tokens,
                                                                   float * probabilities, int32_t cap, int32_t * n);

/* Drafters -------------------------------------------------------------------------------------------------------- */

/* A sampler for a drafter's choices, in the same state: same settings, same noise, temperature times scale (> 0; about
 * 0.8 is good). draft_seed keys pyspec_sampler_draw_draft and nothing else. Mirostat's state stands still in it between
 * calls of follow. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_for_drafting(const pyspec_sampler * target, double scale,
                                                                     uint64_t draft_seed, pyspec_sampler ** sampler);
/* Take over history, logical index and mirostat's state of the target's sampler. Costs time only for the tokens in
 * which the two histories differ. OPTION unless both have the same settings (the scale of drafting apart). */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_follow(pyspec_sampler * sampler, const pyspec_sampler * target);
/* The draft model's guess at what the target chooses for the next logical index: the same draw, with the target's own
 * noise, on the draft's row. Changes nothing. logits: {n_row} of the draft model, whose vocabulary may be shorter or
 * longer than the target's; ids from n_allowed or from the target's n_vocab on are never chosen. maxima: of the same
 * row, or NULL. mask: of the target's vocabulary, or NULL. *probability estimates that the target agrees: the share of
 * the guess in a softmax over the n_best best candidates' logit + temperature * noise (at temperature <= 0: logit). */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_draft(const pyspec_sampler * sampler, const float * logits,
                                                              const float * maxima, int32_t n_row, int32_t n_allowed,
                                                              const uint32_t * mask, int32_t n_best,
                                                              pyspec_token * token, float * probability);
/* For rejection sampling: an independent draw from the draft's candidates, and the law it was drawn from in ascending
 * id order: *n entries in tokens and probabilities, which have room for cap (OPTION if that is too little; n_row is
 * always enough, so is top_k when it is on). Row arguments as above. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_sampler_draw_draft(const pyspec_sampler * sampler, const float * logits,
                                                                   const float * maxima, int32_t n_row,
                                                                   int32_t n_allowed, const uint32_t * mask,
                                                                   pyspec_token * token, pyspec_token * tokens,
                                                                   double * probabilities, int32_t cap, int32_t * n);

/* Log-softmax of raw logits: value of one token and the n_top best (ties: lowest id). logits {n_vocab}. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_logprobs(const float * logits, int32_t n_vocab, pyspec_token token,
                                                         float * logprob, int32_t n_top, pyspec_token * top_tokens,
                                                         float * top_logprobs);

/* Draft-side choice: the largest logit among the first n_allowed ids (ties: lowest id) and its probability among the
 * best n_best logits (softmax over those only), the confidence that p_min is compared with. maxima: of the same row, or
 * NULL (pyspec_logits_maxima). */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_draft_choice(const float * logits, const float * maxima,
                                                             int32_t n_vocab, int32_t n_allowed, int32_t n_best,
                                                             pyspec_token * token, float * probability);

/* --------------------------------------------------------------------------------------------------------- acceptance
 */

/* What an acceptance function works on; everything is borrowed for the call. Row 0 belongs to the token before the
 * draft, row i to draft[i-1]. Rows are taken one after the other while the draft is accepted; it ends after an end
 * token, after n_max tokens, and after the row behind the last draft token. Rows behind that are not looked at. */
typedef struct pyspec_verification {
    const pyspec_model * model;      /* tokens for which pyspec_token_is_eog is true are end tokens; NULL: none */
    const pyspec_token * end_tokens; /* n_end further ones, in any order */
    int32_t n_end;
    int32_t n_draft;
    const pyspec_token * draft; /* n_draft ids */
    const float * rows;         /* {n_vocab, n_draft + 1} contiguous logits */
    const float * maxima;       /* those of row 0 when the rows are a context's (pyspec_logits_maxima), else NULL */
    const uint32_t * masks;     /* {(n_vocab + 31) / 32, n_draft + 1}, a mask for each row, or NULL */
    int32_t n_max;              /* most tokens to emit, >= 1 */
} pyspec_verification;

/* In all of these out has room for n_draft + 1 ids; *n_out >= 1 tokens were emitted, of which the first *n_accepted
 * were accepted from the draft. The sampler has advanced by *n_out. On error it is as before. */

/* Sample-and-match: the sampler chooses the target's own token for each row; the draft is accepted as far as it says
 * the same. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_accept_match(pyspec_sampler * sampler, const pyspec_verification * v,
                                                             pyspec_token * out, int32_t * n_out, int32_t * n_accepted);

/* Rejection sampling; equal to plain sampling in distribution only. The law draft[i] was drawn from has q_counts[i]
 * entries in q_tokens and q, laws one after the other; 0 entries: that place is decided by sample-and-match. *n_coins:
 * acceptance coins that were needed. temperature <= 0: sample-and-match. UNSUPPORTED with mirostat; OPTION for a law
 * that does not add up to 1 or names an id twice. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_accept_rejection(
    pyspec_sampler * sampler, const pyspec_verification * v, const pyspec_token * q_tokens, const double * q,
    const int32_t * q_counts, pyspec_token * out, int32_t * n_out, int32_t * n_accepted, int32_t * n_coins);

/* The rule itself for one place, on plain lists (ascending ids): the probability of accepting `drafted`, and the law of
 * the token after a rejection, n_p values along p_tokens. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_rejection_rule(const pyspec_token * p_tokens, const double * p,
                                                               int32_t n_p, const pyspec_token * q_tokens,
                                                               const double * q, int32_t n_q, pyspec_token drafted,
                                                               double * acceptance, double * residual);

/* After a checkpoint was restored: emits the draft, which was decided in the first attempt, without deciding it again,
 * then one token more. An end token in the draft ends it. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_accept_replay(pyspec_sampler * sampler, const pyspec_verification * v,
                                                              pyspec_token * out, int32_t * n_out,
                                                              int32_t * n_accepted);

/* For benchmarks, the text means nothing: the first i+1 draft tokens are accepted with probability rates[i], whatever
 * the rows say (but never an end token), by coins keyed by seed and logical index; a rejection emits the target's
 * choice. OPTION unless 1 >= rates[0] >= rates[1] ... >= 0 and n_draft <= n_rates. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_accept_synthetic(pyspec_sampler * sampler,
                                                                 const pyspec_verification * v, const double * rates,
                                                                 int32_t n_rates, pyspec_token * out, int32_t * n_out,
                                                                 int32_t * n_accepted);
/* n rates p, p^2, ... that make rounds of n draft tokens emit `length` tokens on average. OPTION unless n >= 1 and
 * length is in 1 .. n + 1. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_synthetic_rates(double length, int32_t n, double * rates);

/* ------------------------------------------------------------------------------------------------------------ history
 */

/* Suffix drafter: an index of a token sequence (and of other texts) that guesses how the sequence goes on by copying
 * what followed the longest match of its end. It needs no model. The sequence may be edited freely; what it held before
 * stays in the index as text to copy from, up to memory_tokens. Guesses are scored against what follows, which corrects
 * their confidence. Equal calls give equal guesses. One thread at a time. Nothing of it survives in another handle. */
typedef struct pyspec_suffix pyspec_suffix;

typedef struct pyspec_suffix_params {
    size_t struct_size;
    int32_t max_draft;     /* longest guess in tokens, 1..1024; default 31 */
    int64_t memory_tokens; /* tokens of the sequence and of added documents in the index, 1024..2^28, default 262144;
                            * about 90 bytes each */
    int32_t n_end;
    const pyspec_token * end_tokens; /* n_end ids; a guess ends with any of them. Copied */
} pyspec_suffix_params;

PYSPEC_API void pyspec_suffix_params_default(pyspec_suffix_params * params, size_t struct_size);

PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_suffix_new(const pyspec_suffix_params * params,
                                                           pyspec_suffix ** suffix);
PYSPEC_API void pyspec_suffix_free(pyspec_suffix * suffix);

/* Token ids in the calls below: those of the vocabulary, and ids from -1 down to -2^31 + 2 for what is no token (a part
 * of an image, say), a different id for each such thing; they never match and are never guessed. On OPTION nothing has
 * changed. After OUT_OF_MEMORY the object is usable, pyspec_suffix_n_tokens says how much of the sequence it has. */

/* The first `start` tokens of the sequence (0 <= start <= length) are as before, these n follow, nothing else. Costs
 * what differs. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_suffix_follow(pyspec_suffix * suffix, int64_t start,
                                                              const pyspec_token * tokens, int64_t n);
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_suffix_append(pyspec_suffix * suffix, const pyspec_token * tokens,
                                                              int64_t n);
/* Cut the sequence to its first n tokens. Up to pyspec_suffix_undoable tokens leave no trace; more stay in the index as
 * earlier text. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_suffix_truncate(pyspec_suffix * suffix, int64_t n);
/* Take back exactly the newest n tokens without a trace; OPTION when n is larger than pyspec_suffix_undoable (at most
 * 64). */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_suffix_undo(pyspec_suffix * suffix, int64_t n);
PYSPEC_API int64_t pyspec_suffix_undoable(const pyspec_suffix * suffix);
/* Tokens [begin, end) left the sequence and later ones moved up (a context shift). */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_suffix_remove(pyspec_suffix * suffix, int64_t begin, int64_t end);
/* Text to copy from that is not part of the sequence, for example the expected answer. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_suffix_add_document(pyspec_suffix * suffix, const pyspec_token * tokens,
                                                                    int64_t n);
/* A fixed body of text beside the session's: document i is tokens[ends[i-1] .. ends[i]), ends[-1] = 0. At most 2^24
 * tokens; memory_tokens does not count it. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_suffix_add_corpus(pyspec_suffix * suffix, const pyspec_token * tokens,
                                                                  const int64_t * ends, int64_t n_documents);
/* Forget the sequence, the documents and everything learnt; corpora stay. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_suffix_reset(pyspec_suffix * suffix);

/* Guess what follows the sequence's first n_history tokens and `last`, which must be all of it afterwards: as
 * pyspec_suffix_follow(suffix, n_history, &last, 1) and then a guess of at most `limit` tokens. It is cut before the
 * product of confidences falls below min_product. tokens and confidence have room for max_draft entries; confidence[i]
 * is the probability that token i is right when all before it were. *n is how many were written, 0 = no opinion.
 * pyspec_suffix_guess is the same without a new token. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_suffix_draft(pyspec_suffix * suffix, int64_t n_history,
                                                             pyspec_token last, int32_t limit, float min_product,
                                                             pyspec_token * tokens, float * confidence, int32_t * n);
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_suffix_guess(pyspec_suffix * suffix, int32_t limit, float min_product,
                                                             pyspec_token * tokens, float * confidence, int32_t * n);

/* The sequence: its length, and its tokens (valid until the next call that changes it). */
PYSPEC_API int64_t pyspec_suffix_n_tokens(const pyspec_suffix * suffix);
PYSPEC_API const pyspec_token * pyspec_suffix_tokens(const pyspec_suffix * suffix);

typedef struct pyspec_suffix_info {
    size_t struct_size;
    int64_t n_indexed; /* tokens in the index of the session's text, repeated ones counted again */
    int64_t n_states;  /* of its automata */
    int64_t n_transitions;
    int64_t n_corpora;
    uint64_t memory_bytes; /* of everything this handle owns */
} pyspec_suffix_info;

PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_suffix_get_info(const pyspec_suffix * suffix, pyspec_suffix_info * info,
                                                                size_t struct_size);

/* N-gram drafters: tables over the committed tokens of one session that guess the next ones. They read nothing but
 * tokens; a guess costs microseconds. A history is all tokens that the target's memory holds, without the token that
 * was sampled last.
 *
 * Order of calls: begin; then for each round propose and commit; truncate and remove when the history was edited.
 * Threads: one at a time. Memory: each kind says what it needs in csrc/history; pyspec_ngram_memory measures it. */
typedef struct pyspec_ngram pyspec_ngram;

typedef enum pyspec_ngram_kind {
    PYSPEC_NGRAM_SIMPLE  = 0, /* what followed the newest occurrence of the last n tokens */
    PYSPEC_NGRAM_MAP_K   = 1, /* the same with a whole continuation, and a learnt length for each n-gram */
    PYSPEC_NGRAM_MAP_K4V = 2, /* the clear majority of up to four continuations of the last n tokens */
    PYSPEC_NGRAM_MOD     = 3, /* token by token from a hash table of fixed size */
    PYSPEC_NGRAM_CACHE   = 4, /* token by token from counts of this text and of files */
} pyspec_ngram_kind;

typedef struct pyspec_ngram_params {
    size_t struct_size;
    pyspec_ngram_kind kind;
    int32_t n;         /* tokens that must match, 1..1024 (default 3; MOD 4); not CACHE */
    int32_t m;         /* longest draft in tokens, 1..1024 (default 16; MAP_K4V 4, CACHE 8); for MAP_* also the
                        * length of a continuation */
    int32_t min_hits;  /* MAP_*: occurrences of an n-gram before it is used, 1..1024 (default 1) */
    int32_t n_min;     /* MOD: shorter drafts are dropped, 0..m (default 2) */
    int32_t n_entries; /* MOD: size of the table, 8 bytes each, 1024..2^24 (default 2^17) */
    int32_t n_vocab;   /* CACHE: ids in files are below; 1 or more, no default */
    bool learn;        /* CACHE: the dynamic table takes in text that leaves the history, until it has 2^20 n-grams
                        * (default false) */
} pyspec_ngram_params;

/* OPTION for an unknown kind. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_ngram_params_default(pyspec_ngram_params * params,
                                                                     pyspec_ngram_kind kind, size_t struct_size);
/* OPTION names the field that is out of range; fields of other kinds are not looked at. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_ngram_new(const pyspec_ngram_params * params, pyspec_ngram ** ngram);
PYSPEC_API void pyspec_ngram_free(pyspec_ngram * ngram);

/* The history is now these tokens. Costs what differs from the history before. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_ngram_begin(pyspec_ngram * ngram, const pyspec_token * tokens,
                                                            int64_t n_tokens);
/* Guess up to limit tokens that follow the history and last. draft and confidence have room for m; confidence[i] is an
 * estimate of the probability that token i is right when all before it are. *n_draft = 0: no guess; -1: the history
 * does not have n_history tokens, call begin. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_ngram_propose(pyspec_ngram * ngram, int64_t n_history,
                                                              pyspec_token last, int32_t limit, pyspec_token * draft,
                                                              float * confidence, int32_t * n_draft);
/* A round is over: the history grew by kept, and emitted are the target's own tokens after `last` of propose (n_emitted
 * 0: kept is a piece of a prompt). If the verified draft was this drafter's: how many of its tokens were verified and
 * accepted; else 0, 0. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_ngram_commit(pyspec_ngram * ngram, const pyspec_token * kept,
                                                             int64_t n_kept, const pyspec_token * emitted,
                                                             int64_t n_emitted, int32_t n_own_draft,
                                                             int32_t n_own_accepted);
/* The history was cut to its first n_tokens tokens. withdrawn: what goes was never part of a text (an undone round). */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_ngram_truncate(pyspec_ngram * ngram, int64_t n_tokens, bool withdrawn);
/* Tokens [first, end) left the history; those after them moved up. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_ngram_remove(pyspec_ngram * ngram, int64_t first, int64_t end);

/* Length of the history; copies at most cap of its tokens. */
PYSPEC_API int64_t pyspec_ngram_history(const pyspec_ngram * ngram, pyspec_token * tokens, int64_t cap);
/* Bytes in use now. */
PYSPEC_API uint64_t pyspec_ngram_memory(const pyspec_ngram * ngram);

/* Tables of counts, of CACHE alone. Bytes are the content of llama.cpp's lookup cache files: records without a header
 * in native byte order, 4 x int32 n-gram (1 to 4 ids, then -1), int32 n, n x {int32 id, int32 count}. */
typedef enum pyspec_ngram_table {
    PYSPEC_NGRAM_CONTEXT = 0, /* counts of the history; cannot be loaded */
    PYSPEC_NGRAM_DYNAMIC = 1,
    PYSPEC_NGRAM_STATIC  = 2,
    PYSPEC_NGRAM_LEARNT  = 3, /* context and dynamic table added up: what a dynamic file is to hold; to be saved */
} pyspec_ngram_table;

/* Replace a table. FILE_FORMAT, and no change, for bytes that are no such records or hold ids outside 0..n_vocab-1;
 * name (may be NULL) stands in the message. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_ngram_load(pyspec_ngram * ngram, pyspec_ngram_table table,
                                                           const void * bytes, size_t n_bytes, const char * name);
/* Copy a table's records. *n_bytes is their size; with bytes = NULL and cap = 0 only that. OPTION when cap is less. */
PYSPEC_API PYSPEC_MUST_USE pyspec_status pyspec_ngram_save(const pyspec_ngram * ngram, pyspec_ngram_table table,
                                                           void * bytes, size_t cap, size_t * n_bytes);

#ifdef __cplusplus
}
#endif
#endif /* PYSPEC_H */
