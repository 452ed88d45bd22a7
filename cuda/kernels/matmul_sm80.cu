#include "matmul.cuh"
#include "mma.cuh"
#include "words.cuh"

const i32 matmul_fast_threads = 128;

// Few rows of input. A thread has MT by NT elements of y, a warp 4 by 8 times as many, and
// a block MS by NS warps. A step takes DEPTH chunks of 16 bytes along k.
template <i32 MT_, i32 NT_, i32 MS_, i32 NS_, i32 DEPTH_, i32 STAGES_> struct MatmulShape {
  static constexpr i32 MT = MT_, NT = NT_, MS = MS_, NS = NS_, DEPTH = DEPTH_, STAGES = STAGES_;
  static constexpr i32 THREADS = matmul_fast_threads, TM = 4 * MT * MS, TN = 8 * NT * NS;
  static_assert(32 * MS * NS == THREADS);
  static constexpr i32 BYTES = (TM + TN) * DEPTH * 16 * STAGES;
};

// A step of LINES lines of a factor as it lies in memory: along k, or across,
// where neighbours belong to neighbouring lines. A thread has EACH lines.
template <class S, class P, bool ACROSS, i32 LINES, i32 EACH> struct FactorTile {
  static constexpr i32 V = 16 / sizeof(S), DEPTH = V * P::DEPTH;
  static constexpr i32 G = ACROSS ? EACH : 1; // lines that are read at once, and lie side by side
  typedef ChunkTile<ACROSS ? DEPTH : LINES, ACROSS ? LINES / V : P::DEPTH, P::THREADS> Tile;
  Tile tile;

  // The line of a thread's element j, of which LANES threads have different ones.
  template <i32 LANES> static DEVICE i32 line_of(i32 lane, i32 j) {
    return ACROSS ? EACH * lane + j : lane + j * LANES;
  }

  // G lines from line on, a chunk of products from k on.
  template <class T> DEVICE void read(i32 line, i32 k, T (&v)[G][V]) {
    if constexpr (ACROSS) {
#pragma unroll
      for (i32 q = 0; q < V; q++) {
        T w[G];
        unpack(w, *(const Pack<S, G> *)((const S *)tile.at(k + q, line / V) + line % V));
#pragma unroll
        for (i32 g = 0; g < G; g++) v[g][q] = w[g];
      }
    } else {
      unpack(v[0], *(const Words<S, V> *)tile.at(line, k / V));
    }
  }
};

// Where tiles of a factor come from, of lines first.. of a matrix.
template <class S, bool ACROSS, class Tile>
DEVICE ChunkSource<Tile, ACROSS> source(const Factor &f, i64 batch, i64 first, i64 depth) {
  const S *data = (const S *)f.data + batch * f.batch;
  if constexpr (ACROSS)
    return {data, f.k * (i64)sizeof(S), first * (i64)sizeof(S), depth, f.lines * (i64)sizeof(S)};
  else
    return {data, f.line * (i64)sizeof(S), first, f.lines, depth * (i64)sizeof(S)};
}

// matmul of factors that lie so that chunks can be copied at once, input along k.
template <class S, class P, bool WA> DEVICE void matmul_tiles(const MatmulArgs &a, void *shared) {
  typedef typename Compute<S>::type T;
  typedef FactorTile<S, P, false, P::TM, P::MT> X;
  typedef FactorTile<S, P, WA, P::TN, P::NT> W;
  X *input = (X *)shared;
  W *other = (W *)(input + P::STAGES);
  const i32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const i32 row0 = warp % P::MS * (4 * P::MT), column0 = warp / P::MS * (8 * P::NT);
  const i64 across = (a.n + P::TN - 1) / P::TN, down = (a.m + P::TM - 1) / P::TM;
  for (i64 tile = blockIdx.x; tile < a.batch * down * across; tile += gridDim.x) {
    i64 band = div_(tile, across), batch = div_(band, down);
    i64 m0 = (band - batch * down) * P::TM, n0 = (tile - band * across) * P::TN;
    auto rows = source<S, false, typename X::Tile>(a.input, batch, m0, a.k);
    auto columns = source<S, WA, typename W::Tile>(a.other, batch, n0, a.k);
    T sum[P::MT][P::NT] = {};
#pragma unroll
    for (i32 s = 0; s < P::STAGES - 1; s++) {
      rows.copy(input[s].tile);
      columns.copy(other[s].tile);
      copies_commit();
    }
    i32 from = 0, to = P::STAGES - 1;
    for (i64 left = a.k; left > 0; left -= X::DEPTH) {
      copies_wait<P::STAGES - 2>();
      __syncthreads();
      rows.copy(input[to].tile);
      columns.copy(other[to].tile);
      copies_commit();
      X &x = input[from];
      W &w = other[from];
      from = from == P::STAGES - 1 ? 0 : from + 1;
      to = to == P::STAGES - 1 ? 0 : to + 1;
      if (m0 + row0 >= a.m) continue;
      auto multiply = [&](i32 k) {
        T b[P::NT / W::G][W::G][X::V];
#pragma unroll
        for (i32 j = 0; j < P::NT; j += W::G) w.read(column0 + W::template line_of<8>(lane % 8, j), k, b[j / W::G]);
#pragma unroll
        for (i32 i = 0; i < P::MT; i++) {
          T f[1][X::V];
          x.read(row0 + X::template line_of<4>(lane / 8, i), k, f);
#pragma unroll
          for (i32 q = 0; q < X::V; q++) {
#pragma unroll
            for (i32 j = 0; j < P::NT; j++) sum[i][j] = fma_(f[0][q], b[j / W::G][j % W::G][q], sum[i][j]);
          }
        }
      };
      // What is beyond k adds nothing, rather than +0: a sum of small numbers may have rounded to -0.
      if (left >= X::DEPTH) {
#pragma unroll
        for (i32 k = 0; k < X::DEPTH; k += X::V) multiply(k);
      } else {
#pragma unroll 1
        for (i32 k = 0; k < (i32)left; k += X::V) multiply(k);
      }
    }
    copies_wait<0>();
    __syncthreads();
    T bias[P::NT];
    S *y[P::NT];
#pragma unroll
    for (i32 j = 0; j < P::NT; j++) {
      i64 n = n0 + column0 + W::template line_of<8>(lane % 8, j);
      y[j] = (S *)a.y + batch * a.y_batch + n * a.y_column;
      if (n < a.n)
        bias[j] = bias_of<T>(a, n);
      else
        y[j] = nullptr;
    }
#pragma unroll
    for (i32 i = 0; i < P::MT; i++) {
      i64 m = m0 + row0 + X::template line_of<4>(lane / 8, i);
      if (m >= a.m) continue;
#pragma unroll
      for (i32 j = 0; j < P::NT; j++) {
        if (y[j]) y[j][m * a.y_row] = Narrow<S>::from(sum[i][j] + bias[j]);
      }
    }
  }
}

template <class S, class P> DEVICE void matmul_fast(const MatmulArgs &a) {
  __shared__ Pack<u8, 16> shared[P::BYTES / 16];
  if (a.other_across)
    matmul_tiles<S, P, true>(a, shared);
  else
    matmul_tiles<S, P, false>(a, shared);
}

#define FAST(name, S, ...)                                                  \
  KERNEL_OF(matmul_##name##_sm80_##S, MatmulArgs, matmul_fast_threads, 1) { \
    matmul_fast<S, MatmulShape<__VA_ARGS__>>(a);                            \
  }
#define MATMUL_FAST(S)            \
  FAST(row, S, 1, 1, 1, 4, 16, 5) \
  FAST(few, S, 2, 2, 2, 2, 16, 4)
MATMUL_FAST(f32)
MATMUL_FAST(f16)
MATMUL_FAST(bf16)
