// The geometry of grid_sample (NUMERICS.md, section 6). Axes count from the
// innermost: 0 is x, 1 is y, 2 is z.
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

// A padded coordinate along one axis and its derivative k, which is 0 where
// the padding sets it so.
template <class T> struct Coordinate {
  T c, k;
};

template <class T> DEVICE Coordinate<T> clip(T c, T k, T size) {
  Coordinate<T> r = {0, 0}; // at or before pixel 0, a NaN, or a single pixel
  if (c >= size - 1 && size > 1)
    r.c = size - 1;
  else if (c > 0 && size > 1)
    r.c = c, r.k = k;
  return r;
}

// Folds a coordinate at low and at low + span, with an exact remainder: the
// truncated quotient is right or one too high.
template <class T> DEVICE Coordinate<T> reflect(T c, T k, T low, T span, T size) {
  const Coordinate<T> none = {0, 0};
  const T limit = 1 << 23;
  T a = abs_(c - low), flips = trunc_(a / span);
  if (!(span > 0) || !(flips <= limit)) return none;
  T extra = fma_(-flips, span, a);
  if (extra < 0) {
    flips = flips - 1;
    extra = extra + span;
  }
  if (!(flips < limit)) return none;
  bool odd = (i32)flips & 1;
  if (odd != (c < low)) k = -k;
  return clip((odd ? span - extra : extra) + low, k, size);
}

template <class T> DEVICE Coordinate<T> unpadded(const Sampler &s, T grid, T size) {
  Coordinate<T> r;
  if (s.align_corners)
    r.c = ((grid + 1) / 2) * (size - 1), r.k = (size - 1) / 2;
  else
    r.c = ((grid + 1) * size - 1) / 2, r.k = size / 2;
  return r;
}

template <class T> DEVICE Coordinate<T> pad(const Sampler &s, Coordinate<T> r, T size) {
  if (s.padding == border) return clip(r.c, r.k, size);
  if (s.padding == reflection) {
    return s.align_corners ? reflect<T>(r.c, r.k, 0, size - 1, size) : reflect<T>(r.c, r.k, -0.5f, size, size);
  }
  return r;
}

// The pixel at a whole number p along an axis, or -1 where there is none. Extents
// are below 2^31.
template <class T> DEVICE i32 pixel_at(T p, i64 size) {
  i32 at = p >= 0 && p < 2147483648.0f ? (i32)p : -1;
  return at < (i32)size ? at : -1;
}

// The cell that a position falls in. T is the compute type.
template <class T, i32 D> struct Cell {
  typedef i64 Offset;
  static constexpr bool NEAREST = true; // or bilinear, which it may always be
  T base[D]; // the near pixel, a whole number, perhaps outside; nearest: the pixel
  T s[D], t[D], k[D];
  i32 pixel[D][2]; // the near and the far one, or -1

  DEVICE Cell(const Sampler &sampler, const Position<D> &p) {
    T g[D];
    load_grid<Offset>(sampler, sampler.grid, p, g);
#pragma unroll
    for (i32 d = 0; d < D; d++) {
      Coordinate<T> x = pad<T>(sampler, unpadded<T>(sampler, g[d], (T)(i32)sampler.size[d]), (T)(i32)sampler.size[d]);
      base[d] = sampler.mode == nearest ? rint_(x.c) : floor_(x.c);
      t[d] = x.c - base[d];
      s[d] = (base[d] + 1) - x.c;
      k[d] = x.k;
      pixel[d][0] = pixel_at(base[d], sampler.size[d]);
      pixel[d][1] = pixel_at(base[d] + 1, sampler.size[d]);
    }
  }
  // Bit d of a tap says whether it is the near (0) or the far one along axis d.
  DEVICE bool inside(i32 tap) const {
    bool all = true;
#pragma unroll
    for (i32 d = 0; d < D; d++) all = all && pixel[d][tap >> d & 1] >= 0;
    return all;
  }
  DEVICE i64 offset(i32 tap, const i64 *stride) const {
    i64 offset = 0;
#pragma unroll
    for (i32 d = 0; d < D; d++) offset += (i64)(u32)pixel[d][tap >> d & 1] * stride[d];
    return offset;
  }
  DEVICE T weight(i32 tap) const {
    T w = tap & 1 ? t[0] : s[0];
#pragma unroll
    for (i32 d = 1; d < D; d++) w *= tap >> d & 1 ? t[d] : s[d];
    return w;
  }
  // The derivative of a corner's weight along an axis.
  DEVICE T slope(i32 tap, i32 axis) const {
    T w = tap >> axis & 1 ? 1 : -1;
#pragma unroll
    for (i32 d = 0; d < D; d++) {
      if (d != axis) w *= tap >> d & 1 ? t[d] : s[d];
    }
    return w;
  }
  DEVICE T derivative(i32 axis) const { return k[axis]; }
  // Whether the padding has set the derivative aside.
  DEVICE bool still(const Sampler &sampler, i32 axis) const { return k[axis] == 0 && sampler.padding != zeros; }
};

// The tangents v of a position's coordinates, and q, in pixels: +0 where the
// coordinate is still. Place is a Cell, or what bicubic has for one.
template <class T, i32 D> struct Shift {
  T v[D], q[D];

  template <class Place> DEVICE Shift(const Sampler &s, const Grid &tangent, const Position<D> &p, const Place &place) {
    load_grid<typename Place::Offset>(s, tangent, p, v);
#pragma unroll
    for (i32 d = 0; d < D; d++) q[d] = place.still(s, d) ? (T)0 : v[d] * place.derivative(d);
  }
};

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
