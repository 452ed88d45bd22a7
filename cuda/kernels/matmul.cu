#include "matmul.cuh"

const i32 matmul_depth = 16; // of a slice: products that a step adds to each y
const i32 matmul_threads = 256, matmul_side = 16; // 16 by 16 threads
const i32 matmul_pack = 4; // lines that a thread reads at once

// A slice of a factor in shared memory: TILE lines, side by side for each k.
template <class T, i32 TILE> struct Slice {
  typedef Pack<T, matmul_pack> Packed;
  static constexpr i32 PACKS = TILE / matmul_pack + 1; // the last one spreads writes over the banks
  Packed pack[matmul_depth][PACKS];

  DEVICE T &at(i32 k, i32 line) { return pack[k][line / matmul_pack].v[line % matmul_pack]; }
  DEVICE void read(i32 k, i32 thread, T (&v)[TILE / matmul_side]) const {
#pragma unroll
    for (i32 i = 0; i < TILE / matmul_side; i += matmul_pack) {
      Packed p = pack[k][thread + i / matmul_pack * matmul_side];
#pragma unroll
      for (i32 j = 0; j < matmul_pack; j++) v[i + j] = p.v[j];
    }
  }
  // The line that element i of what read gives belongs to.
  static DEVICE i32 line_of(i32 thread, i32 i) {
    return (thread + i / matmul_pack * matmul_side) * matmul_pack + i % matmul_pack;
  }
};

// What a thread brings of each slice. It is loaded into registers while the
// slice before is multiplied, and widened when it is put into shared memory.
template <class S, i32 TILE> struct Loader {
  typedef typename Compute<S>::type T;
  static constexpr i32 EACH = TILE * matmul_depth / matmul_threads;
  const Factor &f;
  i64 offset, step, lines, left; // lines and k that are left from this thread's first element on
  i32 line, k, line_step, k_step;
  S fill, v[EACH];

  // Neighbouring threads take neighbours in memory.
  DEVICE Loader(const Factor &factor, i64 batch, i64 first, i64 depth, T beyond)
      : f(factor), fill(Narrow<S>::from(beyond)) {
    bool along = abs(f.k) < abs(f.line);
    i32 t = threadIdx.x;
    line = along ? t / matmul_depth : t % TILE;
    k = along ? t % matmul_depth : t / TILE;
    line_step = along ? matmul_threads / matmul_depth : 0;
    k_step = along ? 0 : matmul_threads / TILE;
    lines = f.lines - first - line;
    left = depth - k;
    offset = batch * f.batch + (first + line) * f.line + k * f.k;
    step = line_step * f.line + k_step * f.k;
  }
  static DEVICE i64 abs(i64 i) { return i < 0 ? -i : i; }

  DEVICE void load() {
#pragma unroll
    for (i32 i = 0; i < EACH; i++) {
      bool inside = i * line_step < lines && i * k_step < left;
      v[i] = inside ? ((const S *)f.data)[offset + i * step] : fill;
    }
    offset += matmul_depth * f.k;
    left -= matmul_depth;
  }
  DEVICE void put(Slice<T, TILE> &slice) const {
#pragma unroll
    for (i32 i = 0; i < EACH; i++) slice.at(k + i * k_step, line + i * line_step) = widen<T>(v[i]);
  }
};

// y[m, n] = fma(input[m, k], other[k, n], y[m, n]) for k ascending, from +0,
// then + bias[n] (NUMERICS.md, section 8). A block of threads computes TILE by
// TILE elements of y.
template <class S, i32 TILE> DEVICE void matmul(const MatmulArgs &a) {
  typedef typename Compute<S>::type T;
  typedef Slice<T, TILE> Shared;
  constexpr i32 EACH = TILE / matmul_side; // rows and columns of y per thread
  __shared__ Shared input, other;
  const i32 tx = threadIdx.x % matmul_side, ty = threadIdx.x / matmul_side;
  const i64 across = (a.n + TILE - 1) / TILE, down = (a.m + TILE - 1) / TILE;
  for (i64 tile = blockIdx.x; tile < a.batch * down * across; tile += gridDim.x) {
    i64 band = div_(tile, across), batch = div_(band, down);
    i64 m0 = (band - batch * down) * TILE, n0 = (tile - band * across) * TILE;
    // Beyond k products are -0, which changes no sum: a sum may be -0, where
    // one of small numbers has rounded to that.
    Loader<S, TILE> rows(a.input, batch, m0, a.k, -(T)0), columns(a.other, batch, n0, a.k, (T)0);
    T sum[EACH][EACH] = {};
    rows.load();
    columns.load();
    for (i64 k0 = 0; k0 < a.k; k0 += matmul_depth) {
      rows.put(input);
      columns.put(other);
      __syncthreads();
      rows.load();
      columns.load();
#pragma unroll 4
      for (i32 k = 0; k < matmul_depth; k++) {
        T x[EACH], w[EACH];
        input.read(k, ty, x);
        other.read(k, tx, w);
#pragma unroll
        for (i32 i = 0; i < EACH; i++) {
#pragma unroll
          for (i32 j = 0; j < EACH; j++) sum[i][j] = fma_(x[i], w[j], sum[i][j]);
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (i32 j = 0; j < EACH; j++) {
      i64 n = n0 + Shared::line_of(tx, j);
      if (n >= a.n) continue;
      T bias = bias_of<T>(a, n);
#pragma unroll
      for (i32 i = 0; i < EACH; i++) {
        i64 m = m0 + Shared::line_of(ty, i);
        if (m >= a.m) continue;
        ((S *)a.y)[batch * a.y_batch + m * a.y_row + n * a.y_column] = Narrow<S>::from(sum[i][j] + bias);
      }
    }
  }
}

// matmul_wide reads less memory for each product, where there are tiles enough.
#define MATMUL(S)                                      \
  KERNEL(matmul_##S, MatmulArgs) { matmul<S, 64>(a); } \
  KERNEL(matmul_wide_##S, MatmulArgs) { matmul<S, 128>(a); }
EACH_FLOAT(MATMUL)
