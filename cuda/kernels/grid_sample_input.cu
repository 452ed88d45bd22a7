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
      any = any && whole_below(cell.base[d] + (T)rim, s.size[d] + rim);
      base[d] = any ? (i64)cell.base[d] : 0;
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

#define INPUT_KEYS(T, D)                                                    \
  KERNEL(input_keys_##D##d_##T, InputGradientArgs) { input_keys<T, D>(a); } \
  KERNEL(input_keys_bicubic_##D##d_##T, InputGradientArgs) { input_keys_bicubic<T, D>(a); }
INPUT_KEYS(f32, 2)
INPUT_KEYS(f64, 2)
INPUT_KEYS(f32, 3)
INPUT_KEYS(f64, 3)

// A job's type contains commas, which a macro's argument must not.
#define INPUT_GRADIENT(S, D)                                        \
  typedef InputGradient<S, D, NearestSources, 8> Nearest##S##D;     \
  typedef InputGradient<S, D, LinearSources, 8> Linear##S##D;       \
  typedef InputGradient<S, D, CubicSources, 4> Cubic##S##D;         \
  SCATTER_KERNELS(input_gradient_nearest_##D##d_##S, Nearest##S##D) \
  SCATTER_KERNELS(input_gradient_##D##d_##S, Linear##S##D)          \
  SCATTER_KERNELS(input_gradient_bicubic_##D##d_##S, Cubic##S##D)
EACH_SAMPLER(INPUT_GRADIENT)
