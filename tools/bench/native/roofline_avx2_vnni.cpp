// AVX2 with AVX-VNNI: one instruction multiplies 32 pairs of bytes.
#if defined(__x86_64__)

#define PYSPEC_AVX2_VNNI 1
#define PYSPEC_LOOPS avx2_vnni_loops
#define PYSPEC_LOOPS_NAME "avx2_vnni"
#include "roofline_avx2.inc"

#endif
