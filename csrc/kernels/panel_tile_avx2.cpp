// AVX2 with FMA and F16C.
#if defined(__x86_64__)

#define PYSPEC_TILE_SET avx2
#include "kernels/panel_tile_avx2.inc"

namespace pyspec {
namespace avx2 {
extern const FloatTiles float_tiles;
extern const AttentionRoutines attention_routines;
extern const RowRoutines row_routines;
} // namespace avx2
extern const TileSet avx2_tiles{
    "avx2", avx2::max_columns, avx2::tile_of, &avx2::float_tiles, &avx2::attention_routines, &avx2::row_routines};
} // namespace pyspec

#endif
