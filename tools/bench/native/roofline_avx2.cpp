// AVX2 without VNNI: bytes are multiplied and added to 16 bits, then to 32.
#if defined(__x86_64__)

#define PYSPEC_LOOPS avx2_loops
#define PYSPEC_LOOPS_NAME "avx2"
#include "roofline_avx2.inc"

#endif
