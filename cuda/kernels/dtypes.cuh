// Element types, their conversions, and how kernels see a tensor. Every .cu
// file starts here. The same sources compile for the GPU (NVRTC) and, with
// shim/shim.h, for the CPU; see "CUDA" in the project's DESIGN.md.
#pragma once

typedef long long i64;
typedef unsigned long long u64;
typedef int i32;
typedef unsigned int u32;
typedef short s16;
typedef unsigned short u16;
typedef float f32;
typedef double f64;
typedef signed char s8;
typedef unsigned char u8;
struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};
struct f8e4m3 {
  u8 bits;
};
struct f8e5m2 {
  u8 bits;
};

// The lists that entry points are instantiated from.
#define EACH_FLOAT(M) M(f32) M(f64) M(f16) M(bf16)
#define EACH_FLOAT_OF(M, X) M(X, f32) M(X, f64) M(X, f16) M(X, bf16)
#define EACH_CODE_OF(M, X) M(X, s8) M(X, u8) M(X, s16) M(X, u16) M(X, i32) M(X, f8e4m3) M(X, f8e5m2) EACH_FLOAT_OF(M, X)

// A kernel takes one struct of arguments, whose layout ../args.go repeats, and
// is run by blocks of at most 256 threads, or KERNEL_OF so many. KERNEL_FIT
// limits registers so that so many blocks fit a multiprocessor.
#ifndef KERNEL
#define KERNEL(name, Args) extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ Args a)
#define KERNEL_OF(name, Args, threads, blocks) \
  extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ Args a)
#define KERNEL_FIT(name, Args, blocks) KERNEL_OF(name, Args, 256, blocks)
#define DEVICE __device__ __forceinline__
#endif

// Compute<S>::type is the type that arithmetic on storage type S is done in.
template <class S> struct Compute {
  typedef f32 type;
};
template <> struct Compute<f64> {
  typedef f64 type;
};

DEVICE u32 min_(u32 a, u32 b) { return a < b ? a : b; }

DEVICE f32 rint_(f32 x) { return rintf(x); }
DEVICE f64 rint_(f64 x) { return rint(x); }
DEVICE f32 floor_(f32 x) { return floorf(x); }
DEVICE f64 floor_(f64 x) { return floor(x); }
DEVICE f32 trunc_(f32 x) { return truncf(x); }
DEVICE f64 trunc_(f64 x) { return trunc(x); }
DEVICE f32 abs_(f32 x) { return fabsf(x); }
DEVICE f64 abs_(f64 x) { return fabs(x); }
DEVICE f32 sqrt_(f32 x) { return sqrtf(x); }
DEVICE f64 sqrt_(f64 x) { return sqrt(x); }
DEVICE f32 fma_(f32 x, f32 y, f32 z) { return fmaf(x, y, z); }
DEVICE f64 fma_(f64 x, f64 y, f64 z) { return fma(x, y, z); }

// Half precision. f16 conversions are instructions on every target; bf16 is
// done with integers, which keeps denormals and needs no particular hardware.
#ifndef ISOBIT_SHIM
DEVICE u32 bits_of(f32 x) { return __float_as_uint(x); }
DEVICE u64 bits_of(f64 x) { return (u64)__double_as_longlong(x); }
DEVICE f32 from_bits(u32 b) { return __uint_as_float(b); }
DEVICE f64 from_bits(u64 b) { return __longlong_as_double((i64)b); }
DEVICE f32 half_to_float(u16 h) {
  f32 f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
DEVICE u16 float_to_half(f32 f) {
  u16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
// The sum of four products of signed bytes and c.
DEVICE i32 dot4(i32 x, i32 y, i32 c) {
  i32 d;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(y), "r"(c));
  return d;
}
#endif

// Narrows to f32 so that rounding the result to 16 bits is as if x had been
// rounded once: an inexact result takes the neighbour with an odd last bit.
DEVICE f32 to_odd(f32 x) { return x; }
DEVICE f32 to_odd(f64 x) {
  f32 f = (f32)x;
  if ((f64)f == x || x != x) return f;
  u32 b = bits_of(f);
  if ((b & 1) == 0) b = abs_((f64)f) > abs_(x) ? b - 1 : b + 1;
  return from_bits(b);
}

#include "float8.cuh"

// widen reads a storage value in compute type T, rounded once where T is
// narrower; narrow rounds once, ties to even, to the storage type.
template <class T, class S> DEVICE T widen(S v) { return (T)v; }
template <> DEVICE f32 widen<f32, f16>(f16 v) { return half_to_float(v.bits); }
template <> DEVICE f64 widen<f64, f16>(f16 v) { return (f64)half_to_float(v.bits); }
template <> DEVICE f32 widen<f32, bf16>(bf16 v) { return from_bits((u32)v.bits << 16); }
template <> DEVICE f64 widen<f64, bf16>(bf16 v) { return (f64)from_bits((u32)v.bits << 16); }

template <> DEVICE f32 widen<f32, f8e4m3>(f8e4m3 v) { return decode_float8(v.bits, e4m3); }
template <> DEVICE f64 widen<f64, f8e4m3>(f8e4m3 v) { return (f64)decode_float8(v.bits, e4m3); }
template <> DEVICE f32 widen<f32, f8e5m2>(f8e5m2 v) { return decode_float8(v.bits, e5m2); }
template <> DEVICE f64 widen<f64, f8e5m2>(f8e5m2 v) { return (f64)decode_float8(v.bits, e5m2); }

template <class S> struct Narrow {
  template <class T> static DEVICE S from(T v) { return (S)v; }
};
template <> struct Narrow<s8> {
  template <class T> static DEVICE s8 from(T v) { return (s8)(i32)v; }
};
template <> struct Narrow<u8> {
  template <class T> static DEVICE u8 from(T v) { return (u8)(i32)v; }
};
template <> struct Narrow<i32> { // of 2^31 the largest i32, which no f32 is
  template <class T> static DEVICE i32 from(T v) { return v < (T)2147483648.0 ? (i32)v : 2147483647; }
};
template <> struct Narrow<f16> {
  template <class T> static DEVICE f16 from(T v) {
    f16 h = {float_to_half(to_odd(v))};
    return h;
  }
};
template <> struct Narrow<bf16> {
  template <class T> static DEVICE bf16 from(T v) {
    f32 f = to_odd(v);
    u32 b = bits_of(f);
    bf16 h = {(u16)(f != f ? b >> 16 | 0x40 : (b + 0x7fff + (b >> 16 & 1)) >> 16)};
    return h;
  }
};

template <> struct Narrow<f8e4m3> { // of what is rounded already
  template <class T> static DEVICE f8e4m3 from(T v) {
    f8e4m3 q = {encode_float8((f32)v, e4m3)};
    return q;
  }
};
template <> struct Narrow<f8e5m2> {
  template <class T> static DEVICE f8e5m2 from(T v) {
    f8e5m2 q = {encode_float8((f32)v, e5m2)};
    return q;
  }
};

// Float8<S>::kind is which 8-bit float S is, if it is one.
template <class S> struct Float8 {
  static constexpr i32 kind = no_float8;
};
template <> struct Float8<f8e4m3> {
  static constexpr i32 kind = e4m3;
};
template <> struct Float8<f8e5m2> {
  static constexpr i32 kind = e5m2;
};

const i32 max_rank = 8;

// Codes of the types that a kernel learns at run time (Tensor::dtype).
enum { none_, f32_, f64_, f16_, bf16_, s8_, u8_, i32_, i64_, f8e4m3_, f8e5m2_, s4_, u4_, s16_, u16_ };

// A tensor of which elements are named by their row-major logical number.
// rank 0: compact and aligned for vector access; rank 1: one stride, in
// elements; more: extents and strides, outermost first.
struct Tensor {
  void *data;
  i32 dtype, rank;
  i64 extent[max_rank], stride[max_rank];
};

// 64-bit division takes many times as long as 32-bit division, which is
// nearly always enough.
DEVICE i64 div_(i64 a, i64 b) {
  if (((u64)(a | b) >> 32) == 0) return (i64)((u32)a / (u32)b);
  return a / b;
}

DEVICE i64 offset_of(const Tensor &t, i64 i) {
  if (t.rank == 0) return i;
  if (t.rank == 1) return i * t.stride[0];
  i64 offset = 0;
#pragma unroll 1
  for (i32 d = t.rank - 1; d > 0; d--) {
    i64 q = div_(i, t.extent[d]);
    offset += (i - q * t.extent[d]) * t.stride[d];
    i = q;
  }
  return offset + i * t.stride[0];
}

template <class S> DEVICE S &element(const Tensor &t, i64 i) { return ((S *)t.data)[offset_of(t, i)]; }

template <class S> DEVICE typename Compute<S>::type get(const Tensor &t, i64 i) {
  return widen<typename Compute<S>::type>(element<S>(t, i));
}

// Elements of a type that is only known at run time: of a float,
template <class T> DEVICE T get_float(const void *data, i32 dtype, i64 at) {
  switch (dtype) {
  case f32_:
    return widen<T>(((const f32 *)data)[at]);
  case f64_:
    return widen<T>(((const f64 *)data)[at]);
  case f16_:
    return widen<T>(((const f16 *)data)[at]);
  default:
    return widen<T>(((const bf16 *)data)[at]);
  }
}

// and of any: parameters, grids. An absent tensor's are 0.
template <class T> DEVICE T get_as(const void *data, i32 dtype, i64 at) {
  switch (dtype) {
  case none_:
    return 0;
  case s8_:
    return widen<T>(((const s8 *)data)[at]);
  case u8_:
    return widen<T>(((const u8 *)data)[at]);
  case s16_:
    return widen<T>(((const s16 *)data)[at]);
  case u16_:
    return widen<T>(((const u16 *)data)[at]);
  case i32_:
    return widen<T>(((const i32 *)data)[at]);
  case i64_:
    return widen<T>(((const i64 *)data)[at]);
  case f8e4m3_:
    return widen<T>(((const f8e4m3 *)data)[at]);
  case f8e5m2_:
    return widen<T>(((const f8e5m2 *)data)[at]);
  default:
    return get_float<T>(data, dtype, at);
  }
}

template <class T> DEVICE void set_as(void *data, i32 dtype, i64 at, T v) {
  switch (dtype) {
  case f32_:
    ((f32 *)data)[at] = Narrow<f32>::from(v);
    break;
  case f64_:
    ((f64 *)data)[at] = Narrow<f64>::from(v);
    break;
  case f16_:
    ((f16 *)data)[at] = Narrow<f16>::from(v);
    break;
  case bf16_:
    ((bf16 *)data)[at] = Narrow<bf16>::from(v);
    break;
  case i32_:
    ((i32 *)data)[at] = Narrow<i32>::from(v);
    break;
  case i64_:
    ((i64 *)data)[at] = Narrow<i64>::from(v);
    break;
  }
}

template <class T> DEVICE T get_any(const Tensor &t, i64 i) { return get_as<T>(t.data, t.dtype, offset_of(t, i)); }
template <class T> DEVICE void set_any(const Tensor &t, i64 i, T v) { set_as(t.data, t.dtype, offset_of(t, i), v); }

// V consecutive elements, moved at once; the tensor has rank 0 and i is a
// multiple of V.
template <class S, i32 V> struct alignas(sizeof(S) * V < 16 ? sizeof(S) * V : 16) Pack {
  S v[V];
};

template <class T, class S, i32 V> DEVICE void unpack(T (&v)[V], const Pack<S, V> &p) {
#pragma unroll
  for (i32 j = 0; j < V; j++) v[j] = widen<T>(p.v[j]);
}

template <class T, class S, i32 V> DEVICE void load_pack(T (&v)[V], const Tensor &t, i64 i) {
  unpack(v, *(const Pack<S, V> *)((const S *)t.data + i));
}

template <class S, class T, i32 V> DEVICE void store_pack(const Tensor &t, i64 i, const T (&v)[V]) {
  Pack<S, V> p;
#pragma unroll
  for (i32 j = 0; j < V; j++) p.v[j] = Narrow<S>::from(v[j]);
  *(Pack<S, V> *)((S *)t.data + i) = p;
}

DEVICE i64 thread_number() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }
DEVICE i64 thread_count() { return (i64)gridDim.x * blockDim.x; }
