/* What a model takes in memory: what the process holds before one is loaded, after that, and once a context has
 * decoded.
 *
 *   resident MODEL N_CTX packed|mapped
 *
 * packed: weights in the form of the fast kernels (default of the library); mapped: all of them stay in the file's
 * pages. stdout: lines "NAME BYTES". resident_* are of /proc/self/status and count pages of the mapped file too; the
 * rest is what the interface reports. */
#include <pyspec.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_TOKENS 16

static int fail(const char * what) {
    fprintf(stderr, "%s: %s\n", what, pyspec_last_error());
    return 1;
}

static void print(const char * name, uint64_t bytes) {
    printf("%s %" PRIu64 "\n", name, bytes);
}

/* A line of /proc/self/status in bytes: "VmRSS" is what is resident now, "VmHWM" the most there ever was. */
static uint64_t status(const char * name) {
    char line[256];
    uint64_t kilobytes = 0;
    const size_t n     = strlen(name);
    FILE * file        = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, name, n) == 0 && sscanf(line + n, ": %" SCNu64 " kB", &kilobytes) == 1) break;
    }
    if (file != NULL) fclose(file);
    if (kilobytes == 0) {
        fprintf(stderr, "/proc/self/status has no %s\n", name);
        exit(2);
    }
    return kilobytes * 1024;
}

static int measure(const char * path, int32_t n_ctx, bool packed) {
    pyspec_model_params model_params;
    pyspec_context_params context_params;
    pyspec_model_params_default(&model_params, sizeof model_params);
    pyspec_context_params_default(&context_params, sizeof context_params);
    model_params.pack_weights = packed;
    context_params.n_ctx      = n_ctx;
    context_params.n_threads  = 2;

    pyspec_model * model = NULL;
    pyspec_context * ctx = NULL;
    pyspec_model_info info;
    pyspec_memory_report report;
    pyspec_token tokens[N_TOKENS];
    for (int i = 0; i < N_TOKENS; i++) tokens[i] = (pyspec_token)(100 + i);
    const pyspec_batch batch = {.tokens = tokens, .n_tokens = N_TOKENS, .positions = NULL, .outputs = NULL};

    print("resident_before", status("VmRSS"));
    if (pyspec_model_load(path, &model_params, NULL, &model) != PYSPEC_OK) return fail("load");
    print("resident_loaded", status("VmRSS"));
    print("resident_peak", status("VmHWM"));
    if (pyspec_context_new(model, &context_params, &ctx) != PYSPEC_OK) return fail("context");
    if (pyspec_decode(ctx, &batch, NULL) != PYSPEC_OK) return fail("decode");
    print("resident_decoded", status("VmRSS"));

    if (pyspec_model_get_info(model, &info, sizeof info) != PYSPEC_OK) return fail("info");
    if (pyspec_context_memory(model, &context_params, &report, sizeof report) != PYSPEC_OK) return fail("memory");
    print("file_bytes", info.file_bytes);
    print("packed_bytes", info.packed_bytes);
    print("cache_bytes", report.cache_bytes);
    print("compute_bytes", report.compute_bytes);
    print("output_bytes", report.output_bytes);
    pyspec_context_free(ctx);
    pyspec_model_free(model);
    return 0;
}

int main(int argc, char ** argv) {
    const bool packed = argc == 4 && strcmp(argv[3], "packed") == 0;
    if (argc != 4 || (!packed && strcmp(argv[3], "mapped") != 0)) {
        fprintf(stderr, "usage: %s MODEL N_CTX packed|mapped\n", argv[0]);
        return 2;
    }
    return measure(argv[1], (int32_t)atoi(argv[2]), packed);
}
