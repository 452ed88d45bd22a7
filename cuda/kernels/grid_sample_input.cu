#include "bicubic.cuh"
#include "scatter.cuh"

// The gradient of grid_sample's input. Output positions are sorted by the
// cell that they fall in; a pixel then draws from the cells around it, one
// for each tap, in the order of positions.
struct InputGradientArgs {
  Scatter scatter; // a destination per pixel, a column per channel
  Sampler sampler; // output: grad_output
  Image out;
  u32 *keys; // [positions]
  i64 positions;
};

// Cells are numbered with a rim of one before pixel 0 (a far tap may still be
// inside there); with nearest, cells are pixels.
template <i32 D> DEVICE i64 cell_number(const Sampler &s, i64 image, const i64 (&base)[D], i32 rim) {
  i64 number = image;
#pragma unroll
  for (i32 d = D - 1; d >= 0; d--) number = number * (s.size[d] + rim) + base[d] + rim;
  return number;
}

template <class T, i32 D> DEVICE void input_keys(const InputGradientArgs &a) {
  const Sampler &s = a.sampler;
  const i32 rim = s.mode == nearest ? 0 : 1;
  for (i64 i = thread_number(); i < a.positions; i += thread_count()) {
    Position<D> p(s, i);
    Cell<T, D> cell(s, p);
    i64 base[D], none = s.images;
    bool any = true;
#pragma unroll
    for (i32 d = 0; d < D; d++) {
      any = any && whole_below(cell.base[d] + (T)rim, s.size[d] + rim);
      base[d] = any ? (i64)cell.base[d] : 0;
      none *= s.size[d] + rim;
    }
    a.keys[i] = (u32)(any ? cell_number<D>(s, p.image, base, rim) : none);
  }
}

// TAPS is 1 with nearest, else 2 to the power of D.
template <class S, i32 D, i32 TAPS> struct InputGradient {
  typedef InputGradientArgs Args;
  typedef typename Compute<S>::type T;
  struct Item {
    const S *dy;
    T weight;
  };
  static constexpr i32 LISTS = TAPS, WIDTH = 4;
  static constexpr bool BY_COLUMN = false;

  static DEVICE i64 key(const Args &a, i64 pixel, i32 tap) {
    i64 base[D];
#pragma unroll
    for (i32 d = 0; d < D; d++) {
      i64 next = div_(pixel, a.sampler.size[d]);
      base[d] = pixel - next * a.sampler.size[d] - (tap >> d & 1);
      pixel = next;
    }
    return cell_number<D>(a.sampler, pixel, base, TAPS == 1 ? 0 : 1);
  }
  static DEVICE Item item(const Args &a, u32 source, i32 tap) {
    const Sampler &s = a.sampler;
    Position<D> p(s, source);
    Item item = {(const S *)s.output.data + p.in(s.output), 1};
    if (TAPS > 1) item.weight = Cell<T, D>(s, p).weight(tap);
    return item;
  }
  static DEVICE void load(const Args &a, const Item &item, i64 column, i32 n, T (&term)[WIDTH]) {
    const i64 pitch = a.sampler.output.channel;
#pragma unroll
    for (i32 j = 0; j < WIDTH; j++) term[j] = j < n ? widen<T>(item.dy[(column + j) * pitch]) * item.weight : (T)0;
  }
  static DEVICE void store(const Args &a, i64 pixel, i64 column, i32 n, u32, T (&sum)[WIDTH]) {
    S *out = (S *)a.out.data + column * a.out.channel;
#pragma unroll
    for (i32 d = 0; d < D; d++) {
      i64 next = div_(pixel, a.sampler.size[d]);
      out += (pixel - next * a.sampler.size[d]) * a.out.axis[d];
      pixel = next;
    }
    out += pixel * a.out.image;
#pragma unroll
    for (i32 j = 0; j < WIDTH; j++) {
      if (j < n) out[j * a.out.channel] = Narrow<S>::from(sum[j]);
    }
  }
};

// With bicubic, every tap is a source of its own, in the order of positions,
// then taps, sorted by pixel: taps of one position may be one pixel.
const i32 bicubic_sources = cubic_taps * cubic_taps;

template <class T> DEVICE void input_keys_bicubic(const InputGradientArgs &a) {
  const Sampler &s = a.sampler;
  const i64 none = s.images * s.size[0] * s.size[1];
  for (i64 i = thread_number(); i < a.positions; i += thread_count()) {
    Position<2> p(s, i);
    CubicAxis<T> x(s, p, 0), y(s, p, 1);
    for (i32 tap = 0; tap < bicubic_sources; tap++) {
      i32 row = tap / cubic_taps, column = tap % cubic_taps;
      i64 pixel = (p.image * s.size[1] + y.at[row]) * s.size[0] + x.at[column];
      a.keys[i * bicubic_sources + tap] = (u32)(y.inside[row] && x.inside[column] ? pixel : none);
    }
  }
}

template <class S> struct BicubicGradient : InputGradient<S, 2, 1> {
  typedef InputGradient<S, 2, 1> Nearest;
  typedef typename Nearest::T T;

  static DEVICE typename Nearest::Item item(const InputGradientArgs &a, u32 source, i32) {
    const Sampler &s = a.sampler;
    Position<2> p(s, source / bicubic_sources);
    CubicAxis<T> x(s, p, 0), y(s, p, 1);
    i32 row = source % bicubic_sources / cubic_taps, column = source % cubic_taps;
    typename Nearest::Item item = {(const S *)s.output.data + p.in(s.output), 0};
#pragma unroll
    for (i32 j = 0; j < cubic_taps; j++) {
      if (j == column) item.weight = x.weight[j];
    }
#pragma unroll
    for (i32 i = 0; i < cubic_taps; i++) {
      if (i == row) item.weight *= y.weight[i];
    }
    return item;
  }
};

KERNEL(input_keys_bicubic_f32, InputGradientArgs) { input_keys_bicubic<f32>(a); }
KERNEL(input_keys_bicubic_f64, InputGradientArgs) { input_keys_bicubic<f64>(a); }

#define INPUT_KEYS(T, D) \
  KERNEL(input_keys_##D##d_##T, InputGradientArgs) { input_keys<T, D>(a); }
INPUT_KEYS(f32, 2)
INPUT_KEYS(f64, 2)
INPUT_KEYS(f32, 3)
INPUT_KEYS(f64, 3)

// A job's type contains commas, which a macro's argument must not.
#define INPUT_GRADIENT(S, D)                                        \
  typedef InputGradient<S, D, 1> Nearest##S##D;                     \
  typedef InputGradient<S, D, 1 << D> Linear##S##D;                 \
  SCATTER_KERNELS(input_gradient_nearest_##D##d_##S, Nearest##S##D) \
  SCATTER_KERNELS(input_gradient_linear_##D##d_##S, Linear##S##D)
EACH_SAMPLER(INPUT_GRADIENT)
SCATTER_KERNELS(input_gradient_bicubic_f32, BicubicGradient<f32>)
SCATTER_KERNELS(input_gradient_bicubic_f64, BicubicGradient<f64>)
SCATTER_KERNELS(input_gradient_bicubic_f16, BicubicGradient<f16>)
SCATTER_KERNELS(input_gradient_bicubic_bf16, BicubicGradient<bf16>)
