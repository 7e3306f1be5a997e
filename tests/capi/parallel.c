/* Everything that threads may do together, over the header alone: two contexts of one model decode at the same time,
 * each with compute threads of its own or shared ones, while a third thread reads the job of the load and the log.
 *
 *   parallel MODEL N_THREADS N_NEW
 *
 * Both contexts continue the same prompt greedily; the exit status is 0 when they chose the same tokens. Meant to be
 * run under the thread sanitizer. stdout: the ids of the new tokens on one line. */
#include <pyspec.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define N_PROMPT 40
#define MAX_NEW 256

typedef struct generator {
    pyspec_model * model;
    int32_t n_vocab;
    int32_t n_threads;
    int n_new;
    pyspec_token tokens[MAX_NEW];
    bool failed;
} generator;

typedef struct watcher {
    pyspec_job * job;
    atomic_bool done;
} watcher;

static bool fail(const char * what) {
    fprintf(stderr, "%s: %s\n", what, pyspec_last_error());
    return false;
}

/* Prompt as one batch, so that rows are shared out, then one token at a time. */
static bool generate(generator * g, pyspec_context * ctx) {
    pyspec_token prompt[N_PROMPT];
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = (pyspec_token)((i * 7 + 3) % g->n_vocab);
    pyspec_batch batch = {.tokens = prompt, .n_tokens = N_PROMPT, .positions = NULL, .outputs = NULL};
    for (int i = 0; i < g->n_new; i++) {
        if (pyspec_decode(ctx, &batch, NULL) != PYSPEC_OK) return fail("decode");
        float probability = 0.0f;
        if (pyspec_draft_choice(pyspec_logits(ctx, 0), pyspec_logits_maxima(ctx, 0), g->n_vocab, g->n_vocab, 10,
                                &g->tokens[i], &probability) != PYSPEC_OK) {
            return fail("choice");
        }
        batch.tokens   = &g->tokens[i];
        batch.n_tokens = 1;
    }
    return true;
}

static void * run_generator(void * argument) {
    generator * g = argument;
    pyspec_context_params params;
    pyspec_context_params_default(&params, sizeof params);
    params.n_ctx         = 512;
    params.n_ubatch      = 16;
    params.n_threads     = g->n_threads;
    pyspec_context * ctx = NULL;
    g->failed            = true;
    if (pyspec_context_new(g->model, &params, &ctx) != PYSPEC_OK) {
        fail("context");
    } else {
        g->failed = !generate(g, ctx);
    }
    pyspec_context_free(ctx);
    return NULL;
}

static void * run_watcher(void * argument) {
    watcher * w     = argument;
    double progress = 0.0;
    while (!atomic_load(&w->done)) {
        char line[256];
        pyspec_log_level level;
        while (pyspec_log_poll(&level, line, sizeof line) >= 0) {
        }
        progress = pyspec_job_progress(w->job);
        if (pyspec_job_cancelled(w->job) || progress < 0.0 || progress > 1.0) {
            fprintf(stderr, "the job says progress %g\n", progress);
            return w;
        }
    }
    return NULL;
}

static bool run_both(pyspec_model * model, int n_threads, int n_new) {
    pyspec_model_info info;
    if (pyspec_model_get_info(model, &info, sizeof info) != PYSPEC_OK) return fail("info");
    static generator generators[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        generators[i] = (generator){.model = model, .n_vocab = info.n_vocab, .n_threads = n_threads, .n_new = n_new};
        if (pthread_create(&threads[i], NULL, run_generator, &generators[i]) != 0) exit(2);
    }
    bool same = true;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < n_new; i++) {
        same = same && generators[0].tokens[i] == generators[1].tokens[i];
        printf("%d ", (int)generators[0].tokens[i]);
    }
    printf("\n");
    if (!same) fprintf(stderr, "the two contexts chose different tokens\n");
    return same && !generators[0].failed && !generators[1].failed;
}

int main(int argc, char ** argv) {
    const int n_threads = argc == 4 ? atoi(argv[2]) : 0;
    const int n_new     = argc == 4 ? atoi(argv[3]) : 0;
    if (n_threads < 1 || n_new < 1 || n_new > MAX_NEW) {
        fprintf(stderr, "usage: %s MODEL N_THREADS N_NEW\n", argv[0]);
        return 2;
    }
    watcher watch        = {.job = NULL, .done = false};
    pyspec_model * model = NULL;
    pyspec_model_params params;
    pyspec_model_params_default(&params, sizeof params);
    pthread_t watching;
    if (pyspec_job_new(&watch.job) != PYSPEC_OK || pthread_create(&watching, NULL, run_watcher, &watch) != 0) return 2;
    bool good = pyspec_model_load(argv[1], &params, watch.job, &model) == PYSPEC_OK || fail("load");
    good      = good && run_both(model, n_threads, n_new);
    atomic_store(&watch.done, true);
    void * complaint = NULL;
    pthread_join(watching, &complaint);
    pyspec_model_free(model);
    pyspec_job_free(watch.job);
    return good && complaint == NULL ? 0 : 1;
}
