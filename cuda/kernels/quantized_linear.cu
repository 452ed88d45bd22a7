#include "quantized_linear.cuh"

const i32 linear_tile = 64; // rows and columns of y per block of threads
const i32 linear_depth = 16; // words of four codes that a step stages
const i32 linear_each = 4; // rows and columns of y per thread
const i64 linear_exact = 65536; // products that sum up within 32 bits

// The four codes at columns 4*word.. of a row; beyond the matrix, zeros.
DEVICE i32 codes_at(const Tensor &t, i64 row, i64 rows, i64 word, i64 k, i64 pitch, i32 packed) {
  if (row >= rows || 4 * word >= k) return 0;
  if (packed) return *(const i32 *)((const s8 *)t.data + row * pitch + 4 * word);
  u32 codes = 0;
  for (i32 j = 0; j < 4 && 4 * word + j < k; j++) codes |= (u32)(u8)element<s8>(t, row * k + 4 * word + j) << (8 * j);
  return (i32)codes;
}

// 32 bits hold the products of linear_exact columns, after which they move to 64.
template <class S> DEVICE void quantized_linear(const LinearArgs &a) {
  typedef typename Compute<S>::type T;
  __shared__ i32 xs[linear_depth][linear_tile + 1], ws[linear_depth][linear_tile + 1];
  __shared__ T x_scale[linear_tile], weight_scale[linear_tile], bias[linear_tile];
  const i32 tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const i64 across = (a.n + linear_tile - 1) / linear_tile, down = (a.m + linear_tile - 1) / linear_tile;
  for (i64 tile = blockIdx.x; tile < across * down; tile += gridDim.x) {
    i64 m0 = tile / across * linear_tile, n0 = tile % across * linear_tile;
    if (threadIdx.x < linear_tile) {
      i64 m = m0 + threadIdx.x, n = n0 + threadIdx.x;
      if (m < a.m) x_scale[threadIdx.x] = get_any<T>(a.x_scale, m);
      if (n < a.n) weight_scale[threadIdx.x] = get_any<T>(a.weight_scale, n);
      if (n < a.n) bias[threadIdx.x] = get_any<T>(a.bias, n);
    }
    i64 sum[linear_each][linear_each] = {};
    i32 acc[linear_each][linear_each] = {};
    for (i64 word = 0; 4 * word < a.k; word += linear_depth) {
      for (i32 e = threadIdx.x; e < linear_tile * linear_depth; e += linear_threads) {
        i32 row = e / linear_depth, w = e % linear_depth;
        xs[w][row] = codes_at(a.x, m0 + row, a.m, word + w, a.k, a.x_pitch, a.packed);
        ws[w][row] = codes_at(a.weight, n0 + row, a.n, word + w, a.k, a.weight_pitch, a.packed);
      }
      __syncthreads();
      for (i32 w = 0; w < linear_depth; w++) {
#pragma unroll
        for (i32 i = 0; i < linear_each; i++) {
          i32 x = xs[w][ty + 16 * i];
#pragma unroll
          for (i32 j = 0; j < linear_each; j++) acc[i][j] = dot4(x, ws[w][tx + 16 * j], acc[i][j]);
        }
      }
      __syncthreads();
      if (4 * (word + linear_depth) % linear_exact != 0) continue;
#pragma unroll
      for (i32 i = 0; i < linear_each; i++) {
#pragma unroll
        for (i32 j = 0; j < linear_each; j++) {
          sum[i][j] += acc[i][j];
          acc[i][j] = 0;
        }
      }
    }
    __syncthreads();
#pragma unroll
    for (i32 i = 0; i < linear_each; i++) {
#pragma unroll
      for (i32 j = 0; j < linear_each; j++) {
        i32 row = ty + 16 * i, column = tx + 16 * j;
        if (m0 + row >= a.m || n0 + column >= a.n) continue;
        element<S>(a.y, (m0 + row) * a.n + n0 + column) =
            linear_value<S>(a, (T)(sum[i][j] + acc[i][j]), x_scale[row], weight_scale[column], bias[column]);
      }
    }
    __syncthreads();
  }
}

#define QUANTIZED_LINEAR(S) \
  KERNEL(quantized_linear_##S, LinearArgs) { quantized_linear<S>(a); }
EACH_FLOAT(QUANTIZED_LINEAR)
