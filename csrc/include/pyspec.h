/* pyspec.h: the C interface of pyspec, a runtime for GGUF language models with speculative decoding.
 *
 * What is here: model, context (decode, memory, state) and token pieces in pyspec_core.h; sampler and acceptance in
 * pyspec_sampling.h; token histories to draft from in pyspec_history.h. What is not: tokenising text, drafters and the
 * speculative round. Those are Python (package `pyspec`) and use this interface; a C program feeds token ids and reads
 * token ids and pieces.
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

#include "pyspec_core.h"
#include "pyspec_history.h"
#include "pyspec_sampling.h"

#endif /* PYSPEC_H */
