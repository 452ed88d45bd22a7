#include "dynamic.cuh"

#define QUANTIZE_GROUPS(name, X, C, EACH, threads, blocks) \
  KERNEL_OF(name, QuantSumArgs, threads, blocks) {         \
    __shared__ u32 shared[2][32];                          \
    quantize_groups<X, C, EACH>(a, shared);                \
  }
// How many packs a thread has, and how many blocks fit, as measured: with more blocks, numbers
// do not stay in registers.
#define QUANTIZE_DYNAMIC(X, bits, C)                                                         \
  KERNEL(quantize_dynamic_short_##X##_##bits, QuantSumArgs) { choose_short<X, C, 4, 1>(a); } \
  KERNEL(quantize_dynamic_pair_##X##_##bits, QuantSumArgs) { choose_short<X, C, 2, 4>(a); }  \
  QUANTIZE_GROUPS(quantize_dynamic_few_##X##_##bits, X, C, 4, 256, 1)                        \
  QUANTIZE_GROUPS(quantize_dynamic_many_##X##_##bits, X, C, 16, 256, 2)                      \
  QUANTIZE_GROUPS(quantize_dynamic_long_##X##_##bits, X, C, 16, 512, 1)
#define QUANTIZE_DYNAMIC_OF(X)      \
  QUANTIZE_DYNAMIC(X, 4, HalfCodes) \
  QUANTIZE_DYNAMIC(X, 8, ByteCodes)

QUANTIZE_DYNAMIC_OF(f32)
QUANTIZE_DYNAMIC_OF(f16)
QUANTIZE_DYNAMIC_OF(bf16)
