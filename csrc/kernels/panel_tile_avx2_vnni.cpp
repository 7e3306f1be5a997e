// AVX2 with FMA, F16C and AVX-VNNI.
#if defined(__x86_64__)

#define PYSPEC_AVX2_VNNI 1
#define PYSPEC_TILE_SET avx2_vnni
#include "kernels/panel_tile_avx2.inc"

namespace pyspec {
namespace avx2_vnni {
extern const AttentionRoutines attention_routines;
}
extern const TileSet avx2_vnni_tiles{"avx2_vnni", avx2_vnni::max_columns, avx2_vnni::tile_of,
                                     &avx2_vnni::attention_routines, int64_t{1} << 30};
} // namespace pyspec

#endif
