#include "mma.cuh"
#include "quantized_linear.cuh"

// A block of threads computes TM by TN elements of y, DEPTH codes at a time. Its
// warps lie WM by WN; where there are more they share each step's codes.
template <i32 TM_, i32 TN_, i32 WM_, i32 WN_, i32 DEPTH_, i32 STAGES_> struct LinearShape {
  static constexpr i32 TM = TM_, TN = TN_, WM = WM_, WN = WN_, DEPTH = DEPTH_, STAGES = STAGES_;
  static constexpr i32 WK = linear_threads / 32 / (WM * WN);
  typedef ChunkTile<TM, DEPTH / 16, linear_threads> Rows;
  typedef ChunkTile<TN, DEPTH / 16, linear_threads> Columns;
};

template <class P> struct alignas(128) LinearStage {
  typename P::Rows x;
  typename P::Columns weight;
};

// Adds up the sums of warps that share codes, in the first of them.
template <class P, i32 N> DEVICE void linear_join(i32 *shared, i32 share, i32 (&acc)[N]) {
  const i32 threads = linear_threads / P::WK, thread = threadIdx.x % threads;
#pragma unroll
  for (i32 v = 0; share > 0 && v < N; v++) shared[((share - 1) * N + v) * threads + thread] = acc[v];
  __syncthreads();
  for (i32 s = 0; share == 0 && s < P::WK - 1; s++) {
#pragma unroll
    for (i32 v = 0; v < N; v++) acc[v] += shared[(s * N + v) * threads + thread];
  }
  __syncthreads();
}

// Chunks can be copied at once, y is compact, and k is so small that 32 bits
// hold the sums.
template <class S, class P> DEVICE void quantized_linear(const LinearArgs &a) {
  typedef typename Compute<S>::type T;
  typedef LinearStage<P> Stage;
  constexpr i32 TM = P::TM, TN = P::TN, DEPTH = P::DEPTH, STAGES = P::STAGES;
  constexpr i32 ROWS = TM / P::WM, COLUMNS = TN / P::WN, MS = ROWS / 16, NS = COLUMNS / 8;
  __shared__ Stage stage[STAGES];
  const i32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, share = P::WK == 1 ? 0 : warp / (P::WM * P::WN);
  const i32 row0 = warp / P::WN % P::WM * ROWS, column0 = warp % P::WN * COLUMNS;
  const i64 across = (a.n + TN - 1) / TN, down = (a.m + TM - 1) / TM;
  const i32 steps = (i32)((a.k + DEPTH - 1) / DEPTH);
  for (i64 tile = blockIdx.x; tile < across * down; tile += gridDim.x) {
    i64 m0 = div_(tile, across) * TM, n0 = (tile - div_(tile, across) * across) * TN;
    ChunkSource<typename P::Rows> x(a.x.data, a.x_pitch, m0, a.m, a.k);
    ChunkSource<typename P::Columns> weight(a.weight.data, a.weight_pitch, n0, a.n, a.k);
    i32 acc[MS * NS * 4] = {};
#pragma unroll
    for (i32 s = 0; s < STAGES - 1; s++) {
      x.copy(stage[s].x);
      weight.copy(stage[s].weight);
      copies_commit();
    }
    i32 from = 0, to = STAGES - 1;
    for (i32 step = 0; step < steps; step++) {
      copies_wait<STAGES - 2>();
      __syncthreads();
#pragma unroll
      for (i32 c0 = 0; c0 < DEPTH / 16; c0 += 2 * P::WK) {
        const i32 c = c0 + 2 * share;
        u32 xs[MS][4], ws[NS / 2][4];
        auto *x_chunk = stage[from].x.at(row0 + lane % 16, c + lane / 16);
        auto *w_chunk = stage[from].weight.at(column0 + lane % 8 + lane / 16 * 8, c + lane / 8 % 2);
#pragma unroll
        for (i32 i = 0; i < MS; i++) load_matrices(xs[i], x_chunk + i * DEPTH);
#pragma unroll
        for (i32 j = 0; j < NS / 2; j++) load_matrices(ws[j], w_chunk + j * DEPTH);
        if (c0 == 0) {
          x.copy(stage[to].x);
          weight.copy(stage[to].weight);
          copies_commit();
        }
#pragma unroll
        for (i32 i = 0; i < MS; i++) {
#pragma unroll
          for (i32 j = 0; j < NS; j++)
            multiply_codes(*(i32(*)[4]) & acc[(i * NS + j) * 4], xs[i], ws[j / 2][j % 2 * 2], ws[j / 2][j % 2 * 2 + 1]);
        }
      }
      from = from == STAGES - 1 ? 0 : from + 1;
      to = to == STAGES - 1 ? 0 : to + 1;
    }
    copies_wait<0>();
    __syncthreads();
    if constexpr (P::WK > 1) linear_join<P>((i32 *)stage, share, acc);
    T *x_scale = (T *)stage, *weight_scale = x_scale + TM, *bias = weight_scale + TN;
    if (threadIdx.x < TM && m0 + threadIdx.x < a.m) x_scale[threadIdx.x] = get_any<T>(a.x_scale, m0 + threadIdx.x);
    if (threadIdx.x < TN && n0 + threadIdx.x < a.n) {
      weight_scale[threadIdx.x] = get_any<T>(a.weight_scale, n0 + threadIdx.x);
      bias[threadIdx.x] = get_any<T>(a.bias, n0 + threadIdx.x);
    }
    __syncthreads();
#pragma unroll
    for (i32 i = 0; i < 2 * MS; i++) {
      i32 row = row0 + 8 * i + lane / 4;
      if (share > 0 || m0 + row >= a.m) continue;
#pragma unroll
      for (i32 j = 0; j < NS; j++) {
        i32 column = column0 + 8 * j + lane % 4 * 2;
        if (n0 + column >= a.n) continue;
        Pack<S, 2> y;
#pragma unroll
        for (i32 e = 0; e < 2; e++)
          y.v[e] = linear_value<S, T>(a, (T)acc[(i / 2 * NS + j) * 4 + i % 2 * 2 + e], x_scale[row],
                                      weight_scale[column + e], bias[column + e]);
        S *out = (S *)a.y.data + (m0 + row) * a.n + n0 + column;
        if (a.n % 2 == 0) {
          *(Pack<S, 2> *)out = y;
        } else {
          out[0] = y.v[0];
          if (n0 + column + 1 < a.n) out[1] = y.v[1];
        }
      }
    }
    __syncthreads();
  }
}

#define LINEAR(name, S, ...) \
  KERNEL_FIT(quantized_linear_##name##_sm80_##S, LinearArgs, 2) { quantized_linear<S, LinearShape<__VA_ARGS__>>(a); }
#define QUANTIZED_LINEAR(S)            \
  LINEAR(few, S, 16, 32, 1, 1, 256, 4) \
  LINEAR(wide, S, 128, 128, 2, 4, 64, 3)
EACH_FLOAT(QUANTIZED_LINEAR)
LINEAR(low, f32, 64, 32, 2, 1, 128, 4)
LINEAR(small, f32, 64, 64, 2, 2, 128, 3)
