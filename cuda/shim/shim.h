// What CUDA C needs to compile for the CPU. Threads of a block are fibers, so
// that barriers work; see fibers.cc. Each kernels/*.cu is compiled as
//
//	#include "shim.h"
//	namespace {
//	#include "quantize.cu"
//	}
#pragma once
#include <cmath>
#include <cstdio>
#include <cstring>

#define ISOBIT_SHIM
#define DEVICE inline
#define __shared__ static // one block runs at a time

struct Dim3 {
  unsigned x, y, z;
};
extern Dim3 threadIdx, blockIdx, blockDim, gridDim;

// Kernels register themselves by name.
typedef void (*KernelBody)(const void *args);
struct Kernel {
  const char *name;
  unsigned args_size;
  KernelBody body;
  Kernel *next;
  static Kernel *all;
  Kernel(const char *n, unsigned size, KernelBody b) : name(n), args_size(size), body(b), next(all) { all = this; }
};

#define KERNEL_TAKEN(name, Args)                                                                   \
  void name##_body(const Args &a);                                                                 \
  Kernel name##_kernel(#name, sizeof(Args), [](const void *p) { name##_body(*(const Args *)p); }); \
  void name##_body(const Args &a)

#ifdef SHIM_CHOOSES // kernels with -DSHIM_name=,KERNEL_TAKEN: the others are templates of which nothing is compiled
#define KERNEL_LEFT(name, Args) template <class Left> void name##_left(const Left &a)
#define KERNEL_SECOND(first, second, ...) second
#define KERNEL_CHOSEN(...) KERNEL_SECOND(__VA_ARGS__)
#define KERNEL(name, Args) KERNEL_CHOSEN(SHIM_##name, KERNEL_LEFT, )(name, Args)
#else
#define KERNEL(name, Args) KERNEL_TAKEN(name, Args)
#endif
#define KERNEL_FIT(name, Args, blocks) KERNEL(name, Args)
#define KERNEL_OF(name, Args, threads, blocks) KERNEL(name, Args)

// Runs a kernel (fibers.cc); false if it trapped. args_size 0 is not checked.
bool shim_run(const char *name, Dim3 grid, Dim3 threads, const void *args, unsigned args_size, bool descending);
[[noreturn]] void shim_fail(const char *why);
extern const char *shim_running; // the kernel that runs, for messages

// Barriers switch to the next fiber.
void __syncthreads();
void __syncwarp();

// What the threads of a warp show to each other (at most 32 bytes): of(lane), until
// a thread shows something twice more.
const char (*shim_show(unsigned mask, const void *value, unsigned size))[32];
template <class T> struct Shown {
  const char (*slot)[32];
  Shown(unsigned mask, const T &value) : slot(shim_show(mask, &value, sizeof value)) {}
  T of(int lane) const {
    T v;
    memcpy(&v, slot[lane & 31], sizeof v);
    return v;
  }
};
inline int shim_lane() { return (threadIdx.y * blockDim.x + threadIdx.x) % 32; }
inline unsigned __match_any_sync(unsigned mask, unsigned value) {
  Shown<unsigned> shown(mask, value);
  unsigned peers = 0;
  for (int t = 0; t < 32; t++) peers |= (unsigned)(shown.of(t) == value) << t;
  return peers;
}
inline unsigned __ballot_sync(unsigned mask, bool vote) {
  Shown<bool> shown(mask, vote);
  unsigned votes = 0;
  for (int t = 0; t < 32; t++) votes |= (unsigned)shown.of(t) << t;
  return votes;
}
inline bool __any_sync(unsigned mask, bool vote) { return __ballot_sync(mask, vote) != 0; }
template <class T> T __shfl_sync(unsigned mask, T value, int lane) { return Shown<T>(mask, value).of(lane); }
template <class T> T __shfl_xor_sync(unsigned mask, T value, unsigned flip) {
  return Shown<T>(mask, value).of(shim_lane() ^ flip);
}
// A thread whose source is not there keeps its own.
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned by) {
  Shown<T> shown(mask, value);
  return shim_lane() + (int)by < 32 ? shown.of(shim_lane() + by) : value;
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned by) {
  Shown<T> shown(mask, value);
  return shim_lane() >= (int)by ? shown.of(shim_lane() - by) : value;
}
[[noreturn]] void __trap();

#define printf(...) fprintf(stderr, __VA_ARGS__) // stdout carries the answers

inline unsigned __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  unsigned long long bytes = (unsigned long long)y << 32 | x;
  unsigned out = 0;
  for (int i = 0; i < 4; i++) out |= (unsigned)(bytes >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return out;
}
inline int __ffs(int x) { return __builtin_ffs(x); }

inline unsigned atomicAdd(unsigned *p, unsigned v) {
  unsigned old = *p;
  *p = old + v;
  return old;
}
inline unsigned atomicExch(unsigned *p, unsigned v) {
  unsigned old = *p;
  *p = v;
  return old;
}
inline unsigned atomicMin(unsigned *p, unsigned v) {
  unsigned old = *p;
  *p = v < old ? v : old;
  return old;
}

inline int dot4(int a, int b, int c) {
  for (int i = 0; i < 4; i++) c += (int)(signed char)(a >> 8 * i) * (signed char)(b >> 8 * i);
  return c;
}

// See kernels/mma.cuh.
void start_copy(void *to, const void *from, bool inside, int bytes);
template <int BYTES = 16> inline void copy_async(void *to, const void *from, bool inside) {
  start_copy(to, from, inside, BYTES);
}
void copies_commit();
void copies_wait_but(int last);
template <int LAST> inline void copies_wait() { copies_wait_but(LAST); }
void load_matrices(unsigned (&r)[4], const void *row);
void multiply_codes(int (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1);

inline unsigned bits_of(float x) {
  unsigned b;
  memcpy(&b, &x, 4);
  return b;
}
inline unsigned long long bits_of(double x) {
  unsigned long long b;
  memcpy(&b, &x, 8);
  return b;
}
inline double from_bits(unsigned long long b) {
  double x;
  memcpy(&x, &b, 8);
  return x;
}
inline float from_bits(unsigned b) {
  float x;
  memcpy(&x, &b, 4);
  return x;
}

// binary16, written out: the compiler need not have the type.
inline float half_to_float(unsigned short h) {
  unsigned sign = (unsigned)(h >> 15) << 31, exponent = h >> 10 & 31, fraction = h & 1023;
  if (exponent == 31) return from_bits(sign | 0x7f800000 | fraction << 13);
  if (exponent == 0) return from_bits(sign | bits_of((float)fraction * 0x1p-24f));
  return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

inline unsigned short float_to_half(float f) {
  unsigned b = bits_of(f);
  unsigned short sign = b >> 16 & 0x8000;
  if (f != f) return 0x7fff;
  float a = fabsf(f);
  if (a >= 65520.0f) return sign | 0x7c00;
  int exponent = (int)(b >> 23 & 255) - 126; // a < 2^exponent
  if (exponent < -13) exponent = -13; // the denormals' unit
  // In units of 2^(exponent-11): exact before it is rounded.
  unsigned units = (unsigned)rintf(a * from_bits((unsigned)(138 - exponent) << 23));
  return sign | (unsigned short)((unsigned)((exponent + 13) << 10) + units);
}
inline unsigned two_halves(float x, float y) { return float_to_half(x) | (unsigned)float_to_half(y) << 16; }
