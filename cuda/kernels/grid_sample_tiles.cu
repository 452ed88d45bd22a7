#include "tiles.cuh"

#define TILE_LISTS(T)                       \
  KERNEL(input_tiles_count_##T, TileArgs) { \
    __shared__ u32 shared[8][32];           \
    list_positions<T, false>(a, shared);    \
  }                                         \
  KERNEL(input_tiles_fill_##T, TileArgs) {  \
    __shared__ u32 shared[8][32];           \
    list_positions<T, true>(a, shared);     \
  }
TILE_LISTS(f32)
TILE_LISTS(f64)

KERNEL(input_tiles_place, TileArgs) {
  __shared__ u32 shared[tile_warps];
  place_lists(a, shared);
}

#define TILE_SUMS(S)                             \
  KERNEL(input_tiles_gradient_##S, TileArgs) {   \
    __shared__ TileShare<Compute<S>::type> tile; \
    sum_tiles<S, false>(a, tile);                \
  }                                              \
  KERNEL(input_tiles_double_##S, TileArgs) {     \
    __shared__ TileShare<Compute<S>::type> tile; \
    sum_tiles<S, true>(a, tile);                 \
  }
EACH_FLOAT(TILE_SUMS)
