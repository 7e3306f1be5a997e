/* pyspec_history.h: token histories to draft from, the suffix index and the n-gram tables. Conventions: pyspec.h. */
#ifndef PYSPEC_HISTORY_H
#define PYSPEC_HISTORY_H

#include "pyspec_core.h"

#ifdef __cplusplus
extern "C" {
#endif

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
#endif /* PYSPEC_HISTORY_H */
