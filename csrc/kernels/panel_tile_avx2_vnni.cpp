// AVX2 with FMA, F16C and AVX-VNNI.
#if defined(__x86_64__)

#define PYSPEC_AVX2_VNNI 1
#define PYSPEC_TILE_SET avx2_vnni
#include "kernels/panel_tile_avx2.inc"

namespace pyspec {
namespace avx2_vnni {
extern const FloatTiles float_tiles;
extern const AttentionRoutines attention_routines;
extern const RowRoutines row_routines;
} // namespace avx2_vnni
extern const TileSet avx2_vnni_tiles{"avx2_vnni",
                                     avx2_vnni::max_columns,
                                     avx2_vnni::tile_of,
                                     &avx2_vnni::float_tiles,
                                     &avx2_vnni::attention_routines,
                                     &avx2_vnni::row_routines};
} // namespace pyspec

#endif
