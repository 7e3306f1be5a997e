/* A C program over the installed header alone: feeds token ids, continues greedily, prints the pieces.
 *
 *   generate MODEL N_NEW ID [ID ...]
 *
 * stdout: the bytes of the new tokens; stderr: their ids on one line. Ends early at an end-of-generation token. */
#include <pyspec.h>

#include <stdio.h>
#include <stdlib.h>

#define MAX_PROMPT 256

static int fail(const char * what) {
    fprintf(stderr, "%s: %s\n", what, pyspec_last_error());
    return 1;
}

static int generate(const pyspec_model * model, pyspec_context * ctx, pyspec_sampler * sampler,
                    const pyspec_token * prompt, int32_t n_prompt, int n_new) {
    pyspec_token token = 0;
    pyspec_batch batch = {.tokens = prompt, .n_tokens = n_prompt, .positions = NULL, .outputs = NULL};
    for (int i = 0; i < n_new; i++) {
        if (pyspec_decode(ctx, &batch, NULL) != PYSPEC_OK) return fail("decode");
        if (pyspec_sampler_sample(sampler, pyspec_logits(ctx, 0), NULL, &token) != PYSPEC_OK) return fail("sample");
        if (pyspec_sampler_advance(sampler, token, false) != PYSPEC_OK) return fail("advance");
        fprintf(stderr, "%d ", (int)token);
        if (pyspec_token_is_eog(model, token)) break;

        char piece[256];
        int32_t length = pyspec_token_piece(model, token, false, piece, (int32_t)sizeof piece);
        fwrite(piece, 1, length < (int32_t)sizeof piece ? (size_t)length : sizeof piece, stdout);

        batch.tokens   = &token;
        batch.n_tokens = 1;
    }
    fprintf(stderr, "\n");
    return 0;
}

int main(int argc, char ** argv) {
    if (argc < 4 || argc - 3 > MAX_PROMPT) {
        fprintf(stderr, "usage: %s MODEL N_NEW ID [ID ...]\n", argv[0]);
        return 2;
    }
    pyspec_token prompt[MAX_PROMPT];
    for (int i = 3; i < argc; i++) prompt[i - 3] = (pyspec_token)atoi(argv[i]);

    pyspec_model_params model_params;
    pyspec_context_params context_params;
    pyspec_sampler_params sampler_params;
    pyspec_model_params_default(&model_params, sizeof model_params);
    pyspec_context_params_default(&context_params, sizeof context_params);
    pyspec_sampler_params_default(&sampler_params, sizeof sampler_params);
    context_params.n_ctx       = 512;
    context_params.n_threads   = 1;
    sampler_params.temperature = 0.0f;

    pyspec_model * model     = NULL;
    pyspec_context * ctx     = NULL;
    pyspec_sampler * sampler = NULL;
    pyspec_model_info info;
    int result = 1;
    if (pyspec_model_load(argv[1], &model_params, NULL, &model) != PYSPEC_OK) {
        fail("load");
    } else if (pyspec_model_get_info(model, &info, sizeof info) != PYSPEC_OK) {
        fail("info");
    } else if (pyspec_context_new(model, &context_params, &ctx) != PYSPEC_OK) {
        fail("context");
    } else if (pyspec_sampler_new(&sampler_params, info.n_vocab, &sampler) != PYSPEC_OK) {
        fail("sampler");
    } else {
        result = generate(model, ctx, sampler, prompt, argc - 3, atoi(argv[2]));
    }
    pyspec_sampler_free(sampler);
    pyspec_context_free(ctx);
    pyspec_model_free(model);
    return result;
}
