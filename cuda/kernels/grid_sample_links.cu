#include "links.cuh"

#define LINKS(T)                                                              \
  KERNEL(input_links_gradient_##T, TileArgs) { link_positions<T, false>(a); } \
  KERNEL(input_links_double_##T, TileArgs) { link_positions<T, true>(a); }
LINKS(f32)
LINKS(f64)

// A type contains commas, which a macro's argument must not.
typedef Patch<2, 2, 5, true> Square;
typedef Patch<1, 1, 5, false> Pixel;

#define GATHER_OF(name, S, SECOND, N, P, KEYS)         \
  KERNEL_OF(name##_##S, TileArgs, gather_threads, 1) { \
    __shared__ u32 keys[(1 + KEYS) * gather_threads];  \
    gather<S, SECOND, N, P, KEYS>(a, keys);            \
  }
#define GATHER(S, SECOND, order)                             \
  GATHER_OF(input_gather3_##order, S, SECOND, 3, Square, 32) \
  GATHER_OF(input_gather4_##order, S, SECOND, 4, Square, 32) \
  GATHER_OF(input_gather8_##order, S, SECOND, 8, Square, 32)
#define GATHERS(S)           \
  GATHER(S, false, gradient) \
  GATHER(S, true, double)    \
  GATHER_OF(input_gather_nearest, S, false, 4, Pixel, 24)
EACH_FLOAT(GATHERS)
