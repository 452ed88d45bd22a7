// The images, grids and positions of grid_sample. Axes count from the innermost:
// 0 is x, 1 is y, 2 is z.
#pragma once
#include "dtypes.cuh"

enum { bilinear, nearest, bicubic };
enum { zeros, border, reflection };

// An image or volume: channel c of image n at (x, y, z) lies at
// image*n + channel*c + axis[0]*x + axis[1]*y + axis[2]*z, in elements.
struct Image {
  void *data;
  i64 image, channel, axis[3];
};

// The coordinates x, y, z of an output position, or their gradients.
struct Grid {
  void *data;
  i64 image, axis[3], coordinate;
};

struct Sampler {
  i64 images, channels;
  i64 size[3], out[3]; // extents of the input and of the output
  Image input, output; // output: y, or grad_output
  Grid grid;
  i32 mode, padding, align_corners, grid_dtype;
  i32 log_width, log_height; // of the rectangle of positions that a block takes; -1: see each_position
};

// An output position, or a pixel: its image and its place along each axis.
template <i32 D> struct Position {
  u32 image, at[3]; // extents are below 2^31

  DEVICE Position() : image(0), at{0, 0, 0} {}
  DEVICE Position(const i64 *extent, i64 number) {
#pragma unroll
    for (i32 d = 0; d < D; d++) {
      i64 next = div_(number, extent[d]);
      at[d] = (u32)(number - next * extent[d]);
      number = next;
    }
    image = (u32)number;
  }
  // Its offset in an Image or a Grid. Offset is i32 where that is enough.
  template <class Offset = i64, class M> DEVICE Offset in(const M &m) const {
    Offset offset = (Offset)image * (Offset)m.image;
#pragma unroll
    for (i32 d = 0; d < D; d++) offset += (Offset)at[d] * (Offset)m.axis[d];
    return offset;
  }
};

// What each_position calls f for, where a thread has one position at most and
// u32 counts them.
template <class F> DEVICE void own_position(const Sampler &s, u32 groups, F f) {
  Position<2> p;
  u32 group = 0;
  bool here;
  if (s.log_width < 0) {
    const u32 number = blockIdx.x * blockDim.x + threadIdx.x, row = number / (u32)s.out[0];
    p.image = row / (u32)s.out[1];
    p.at[1] = row - p.image * (u32)s.out[1];
    p.at[0] = number - row * (u32)s.out[0];
    here = p.image < (u32)s.images;
  } else {
    p.image = blockIdx.z;
    if (groups > 1) {
      group = p.image / (u32)s.images;
      p.image -= group * (u32)s.images;
    }
    p.at[1] = (blockIdx.y << s.log_height) + (threadIdx.x >> s.log_width);
    p.at[0] = (blockIdx.x << s.log_width) + (threadIdx.x & ((1u << s.log_width) - 1));
    here = p.at[0] < (u32)s.out[0] && p.at[1] < (u32)s.out[1];
  }
  if (!here) p = Position<2>();
  f(p, here, group);
}

// Calls f(position, whether there is one, group) for all output positions and
// groups, all threads of a block as often. Their threadIdx.x share a block's
// positions: a rectangle of an image, which takes no division, or where images
// are small as many as there are threads. Number u32: see own_position.
template <i32 D, class Number = i64, class F> DEVICE void each_position(const Sampler &s, i64 groups, F f) {
  if constexpr (sizeof(Number) == sizeof(u32)) return own_position(s, (u32)groups, f);
  const bool rows = s.log_width < 0;
  const i64 planes = D == 3 ? s.images * s.out[2] : s.images, all = rows ? planes * s.out[1] * s.out[0] : planes;
  const i32 log = rows ? 0 : s.log_width;
  const u32 column = threadIdx.x & ((1u << log) - 1), row = threadIdx.x >> log;
  const u32 left = rows ? 0 : blockIdx.x << log, top = rows ? 0 : blockIdx.y << s.log_height;
  u32 y = top;
  i64 z = rows ? (i64)blockIdx.x * blockDim.x : blockIdx.z;
  while (z < all * groups) {
    bool here = true;
    i64 at = z, group = 0;
    if (rows) {
      here = z + threadIdx.x < all * groups;
      at = here ? z + threadIdx.x : z;
    }
    if (groups > 1) {
      group = div_(at, all);
      at -= group * all;
    }
    Position<D> p;
    if (rows) {
      p = Position<D>(s.out, at);
      z += (i64)gridDim.x * blockDim.x;
    } else {
      p.image = (u32)(D == 3 ? div_(at, s.out[2]) : at);
      p.at[2] = D == 3 ? (u32)(at - p.image * s.out[2]) : 0;
      p.at[1] = y + row;
      p.at[0] = left + column;
      here = p.at[0] < (u32)s.out[0] && p.at[1] < (u32)s.out[1];
      if (!here) p.at[0] = p.at[1] = 0;
      y += gridDim.y << s.log_height;
      if (y >= (u32)s.out[1]) {
        y = top;
        z += gridDim.z;
      }
    }
    f(p, here, group);
  }
}

// The numbers of a Grid of type G at an offset. Where Offset is i32 they are a
// pair, aligned.
template <class G, class Offset, class T, i32 D> DEVICE void load_numbers(const Grid &grid, Offset at, T (&v)[D]) {
  const G *from = (const G *)grid.data + at;
  if constexpr (sizeof(Offset) == sizeof(i32)) {
    const Pack<G, D> pack = *(const Pack<G, D> *)from;
    unpack(v, pack);
  } else {
#pragma unroll
    for (i32 d = 0; d < D; d++) v[d] = widen<T>(from[d * grid.coordinate]);
  }
}
template <class G, class Offset, class T, i32 D>
DEVICE void store_numbers(const Grid &grid, Offset at, const T (&v)[D]) {
  G *to = (G *)grid.data + at;
  if constexpr (sizeof(Offset) == sizeof(i32)) {
    Pack<G, D> pack;
#pragma unroll
    for (i32 d = 0; d < D; d++) pack.v[d] = Narrow<G>::from(v[d]);
    *(Pack<G, D> *)to = pack;
  } else {
#pragma unroll
    for (i32 d = 0; d < D; d++) to[d * grid.coordinate] = Narrow<G>::from(v[d]);
  }
}

// The numbers of a Grid at a position, which has the grid's type: f64 where T
// is, else f32 or 16 bits.
template <class Offset, class T, i32 D>
DEVICE void load_grid(const Sampler &s, const Grid &grid, const Position<D> &p, T (&v)[D]) {
  const Offset at = p.template in<Offset>(grid);
  if constexpr (sizeof(T) == sizeof(f64)) return load_numbers<f64>(grid, at, v);
  if (s.grid_dtype == f32_) return load_numbers<f32>(grid, at, v);
  if (s.grid_dtype == f16_) return load_numbers<f16>(grid, at, v);
  load_numbers<bf16>(grid, at, v);
}
template <class Offset, class T, i32 D>
DEVICE void store_grid(const Sampler &s, const Grid &grid, const Position<D> &p, const T (&v)[D]) {
  const Offset at = p.template in<Offset>(grid);
  if constexpr (sizeof(T) == sizeof(f64)) return store_numbers<f64>(grid, at, v);
  if (s.grid_dtype == f32_) return store_numbers<f32>(grid, at, v);
  if (s.grid_dtype == f16_) return store_numbers<f16>(grid, at, v);
  store_numbers<bf16>(grid, at, v);
}

// N sums at a position.
template <class T, i32 N> struct Sums {
  T sum[N];

  DEVICE void clear() {
#pragma unroll
    for (i32 i = 0; i < N; i++) sum[i] = 0;
  }
  DEVICE void add(const Sums &o) {
#pragma unroll
    for (i32 i = 0; i < N; i++) sum[i] += o.sum[i];
  }
};

// A pointer to global memory that the compiler takes as it is, so that one step
// goes from it to each channel.
template <class S> DEVICE S *as_it_is(S *p) {
#ifdef ISOBIT_SHIM
  return p;
#else
  u64 address = __cvta_generic_to_global(p);
  asm("" : "+l"(address));
  return (S *)__cvta_global_to_generic(address);
#endif
}

#define EACH_SAMPLER(M) M(f32, 2) M(f64, 2) M(f16, 2) M(bf16, 2) M(f32, 3) M(f64, 3) M(f16, 3) M(bf16, 3)
