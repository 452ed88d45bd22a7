#include "input_gradient.cuh"

// The gradient by the input of grid_sample's gradients: the input's gradient
// with derivatives for weights, along the grid's tangent.
struct InputDoubleArgs : InputGradientArgs {
  Grid tangent;
};

template <class Gradient> struct InputDouble : Gradient {
  typedef InputDoubleArgs Args;
  typedef typename Gradient::T T;
  typedef typename Gradient::Item Item;

  static DEVICE Item item(const InputDoubleArgs &a, u32 source, i32 list) {
    const Sampler &s = a.sampler;
    const i32 D = Gradient::DIMS, tap = Gradient::tap(source, list);
    Position<D> p(s.out, source / Gradient::EACH);
    typename Gradient::Weights weights(s, p);
    Shift<T, D> shift(s, a.tangent, p, weights);
    Item item = {(const typename Gradient::S *)s.output.data + p.in(s.output), 0};
#pragma unroll
    for (i32 d = 0; d < D; d++) item.weight += weights.slope(tap, d) * shift.q[d];
    return item;
  }
};

// A job's type contains commas, which a macro's argument must not.
#define INPUT_DOUBLE(S)                                                  \
  typedef InputDouble<InputGradient<S, 3, LinearSources, 4>> Linear3##S; \
  typedef InputDouble<InputGradient<S, 2, CubicSources, 4>> Cubic2##S;   \
  typedef InputDouble<InputGradient<S, 3, CubicSources, 4>> Cubic3##S;   \
  SCATTER_KERNELS(input_double_3d_##S, Linear3##S)                       \
  SCATTER_KERNELS(input_double_bicubic_2d_##S, Cubic2##S)                \
  SCATTER_KERNELS(input_double_bicubic_3d_##S, Cubic3##S)
EACH_FLOAT(INPUT_DOUBLE)
