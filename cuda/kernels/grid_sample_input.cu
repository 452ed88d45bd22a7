#include "input_gradient.cuh"

template <class T, i32 D> DEVICE void input_keys(const InputGradientArgs &a) {
  const Sampler &s = a.sampler;
  const i32 rim = s.mode == nearest ? 0 : 1;
  for (i64 i = thread_number(); i < a.positions; i += thread_count()) {
    Position<D> p(s.out, i);
    Cell<T, D> cell(s, p);
    i64 base[D], none = s.images;
    bool any = true;
#pragma unroll
    for (i32 d = 0; d < D; d++) {
      const i32 at = pixel_at(cell.base[d] + (T)rim, s.size[d] + rim);
      any = any && at >= 0;
      base[d] = at - rim;
      none *= s.size[d] + rim;
    }
    a.keys[i] = (u32)(any ? cell_number<D>(s, p.image, base, rim) : none);
  }
}

template <class T, i32 D> DEVICE void input_keys_bicubic(const InputGradientArgs &a) {
  const Sampler &s = a.sampler;
  const i32 taps = CubicCell<T, D>::taps;
  i64 none = s.images;
#pragma unroll
  for (i32 d = 0; d < D; d++) none *= s.size[d];
  for (i64 i = thread_number(); i < a.positions; i += thread_count()) {
    Position<D> p(s.out, i);
    CubicCell<T, D> cell(s, p);
#pragma unroll
    for (i32 tap = 0; tap < taps; tap++) a.keys[i * taps + tap] = (u32)cell.pixel(s, p, tap, none);
  }
}

#define INPUT_KEYS(T)                                                                   \
  KERNEL(input_keys_3d_##T, InputGradientArgs) { input_keys<T, 3>(a); }                 \
  KERNEL(input_keys_bicubic_2d_##T, InputGradientArgs) { input_keys_bicubic<T, 2>(a); } \
  KERNEL(input_keys_bicubic_3d_##T, InputGradientArgs) { input_keys_bicubic<T, 3>(a); }
INPUT_KEYS(f32)
INPUT_KEYS(f64)

// A job's type contains commas, which a macro's argument must not.
#define INPUT_GRADIENT(S)                                     \
  typedef InputGradient<S, 3, NearestSources, 8> Nearest3##S; \
  typedef InputGradient<S, 3, LinearSources, 8> Linear3##S;   \
  typedef InputGradient<S, 2, CubicSources, 4> Cubic2##S;     \
  typedef InputGradient<S, 3, CubicSources, 4> Cubic3##S;     \
  SCATTER_KERNELS(input_gradient_nearest_3d_##S, Nearest3##S) \
  SCATTER_KERNELS(input_gradient_3d_##S, Linear3##S)          \
  SCATTER_KERNELS(input_gradient_bicubic_2d_##S, Cubic2##S)   \
  SCATTER_KERNELS(input_gradient_bicubic_3d_##S, Cubic3##S)
EACH_FLOAT(INPUT_GRADIENT)
