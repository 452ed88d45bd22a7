#include "matmul.cuh"
#include "mma.cuh"
#include "words.cuh"

// Tiles of many rows and columns. A thread has MT by NT elements of y, a warp 4 by 8 times
// as many, and a block MS by NS warps.
template <i32 MT_, i32 NT_, i32 MS_, i32 NS_, i32 STEP_, i32 STAGES_> struct WideShape {
  static constexpr i32 MT = MT_, NT = NT_, MS = MS_, NS = NS_, STAGES = STAGES_, THREADS = 32 * MS * NS;
  static constexpr i32 STEP = STEP_; // words of a line along k, that threads copy side by side
  static constexpr i32 TM = 4 * MT * MS, TN = 8 * NT * NS, BYTES = STAGES * STEP * 4 * (TM + TN + 16);
};

// A step of LINES lines of a factor in shared memory, neighbouring lines side by side for
// each k, or pair of 16-bit ones. Where the factor lies along k, it is turned when copied,
// in words; ACROSS, neighbours belong to neighbouring lines, 16 bytes are copied at once.
template <class S, class P, bool ACROSS, i32 LINES> struct Slab {
  static constexpr i32 E = 4 / sizeof(S), DEPTH = P::STEP * E; // elements of a word; k's of a step
  static constexpr i32 ROWS = ACROSS ? DEPTH : P::STEP, ROW = LINES / (ACROSS ? E : 1); // words of a row
  static constexpr i32 PITCH = ROW + 4; // spreads copies over the banks
  static constexpr i32 SIDE = ACROSS ? ROW / 4 : P::STEP; // copies of a row or a line
  static constexpr i32 APART = P::THREADS / SIDE, EACH = (ACROSS ? ROWS : LINES) / APART;
  static_assert(EACH * APART == (ACROSS ? ROWS : LINES));
  u32 word[ROWS][PITCH];
};

// Where slabs of a factor come from, and what is left of it beyond.
template <class S, class P, bool ACROSS, i32 LINES> struct SlabSource {
  typedef Slab<S, P, ACROSS, LINES> To;
  const u8 *next;
  i64 apart, step; // bytes from a copy to the next, and from a step to the next
  i32 left; // elements along k
  u32 inside; // a bit for each copy

  DEVICE SlabSource(const Factor &f, i64 batch, i64 first, i64 depth) {
    const i64 side = threadIdx.x % To::SIDE, at = threadIdx.x / To::SIDE;
    const i64 k = ACROSS ? at : side * To::E, line = first + (ACROSS ? side * 4 * To::E : at);
    next = (const u8 *)f.data + (batch * f.batch + line * f.line + k * f.k) * (i64)sizeof(S);
    apart = To::APART * (ACROSS ? f.k : f.line) * (i64)sizeof(S);
    step = To::DEPTH * f.k * (i64)sizeof(S);
    left = (i32)(depth - k);
    inside = 0;
#pragma unroll
    for (i32 u = 0; u < To::EACH; u++) inside |= (u32)(line + (ACROSS ? 0 : u * To::APART) < f.lines) << u;
  }
  DEVICE void copy(To &to) {
    const i32 side = threadIdx.x % To::SIDE, at = threadIdx.x / To::SIDE;
#pragma unroll
    for (i32 u = 0; u < To::EACH; u++) {
      bool here = inside >> u & 1 && (ACROSS ? u * To::APART : 0) < left;
      if constexpr (ACROSS)
        copy_async(&to.word[at + u * To::APART][side * 4], next + u * apart, here);
      else
        copy_async<4>(&to.word[side][at + u * To::APART], next + u * apart, here);
    }
    next += step;
    left -= To::DEPTH;
  }
};

// What a thread multiplies at once: Q products of EACH lines, as they lie in shared memory.
// LANES threads of a warp have different lines.
template <class S, class P, bool ACROSS, i32 LINES, i32 EACH, i32 LANES, i32 Q> struct Fragment {
  typedef Slab<S, P, ACROSS, LINES> From;
  static constexpr i32 G = ACROSS ? 4 * From::E : 4, WORDS = EACH / G; // lines that are read at once
  static_assert(ACROSS || Q == From::E);
  Pack<u32, 4> pack[ACROSS ? Q : 1][WORDS];

  static DEVICE i32 line_of(i32 lane, i32 j) { return G * lane + j / G * (LANES * G) + j % G; }

  DEVICE void read(const From &from, i32 k, i32 line) {
#pragma unroll
    for (i32 r = 0; r < (ACROSS ? Q : 1); r++) {
#pragma unroll
      for (i32 i = 0; i < WORDS; i++)
        pack[r][i] = *(const Pack<u32, 4> *)&from.word[ACROSS ? k + r : k / From::E][(line + i * LANES * G) * 4 / G];
    }
  }
  // The number of line j at product q.
  DEVICE f32 at(i32 q, i32 j) const {
    const u32 w = pack[ACROSS ? q : 0][j / G].v[j % G * 4 / G];
    if constexpr (sizeof(S) == 4) return from_bits(w);
    const bool upper = (ACROSS ? j : q) % 2;
    if constexpr (is_bf16<S>) return from_bits(upper ? w & 0xffff0000 : w << 16);
    return half_to_float((u16)(upper ? w >> 16 : w));
  }
};

template <class S, class P, bool XA, bool WA> DEVICE void matmul_wide(const MatmulArgs &a, void *shared) {
  constexpr i32 E = 4 / sizeof(S), Q = XA && WA ? 1 : E, DEPTH = P::STEP * E; // Q: products at once
  typedef SlabSource<S, P, XA, P::TM> Rows;
  typedef SlabSource<S, P, WA, P::TN> Columns;
  typedef Fragment<S, P, XA, P::TM, P::MT, 4, Q> X;
  typedef Fragment<S, P, WA, P::TN, P::NT, 8, Q> W;
  struct Stage {
    typename Rows::To x;
    typename Columns::To w;
  };
  static_assert(sizeof(Stage) * P::STAGES <= P::BYTES);
  Stage *stage = (Stage *)shared;
  const i32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const i32 row0 = warp % P::MS * (4 * P::MT) + X::line_of(lane / 8, 0);
  const i32 column0 = warp / P::MS * (8 * P::NT) + W::line_of(lane % 8, 0);
  const i64 across = (a.n + P::TN - 1) / P::TN, down = (a.m + P::TM - 1) / P::TM;
  for (i64 tile = blockIdx.x; tile < a.batch * down * across; tile += gridDim.x) {
    i64 band = div_(tile, across), batch = div_(band, down);
    i64 m0 = (band - batch * down) * P::TM, n0 = (tile - band * across) * P::TN;
    Rows rows(a.input, batch, m0, a.k);
    Columns columns(a.other, batch, n0, a.k);
    f32 sum[P::MT][P::NT] = {};
#pragma unroll
    for (i32 s = 0; s < P::STAGES - 1; s++) {
      rows.copy(stage[s].x);
      columns.copy(stage[s].w);
      copies_commit();
    }
    i32 from = 0, to = P::STAGES - 1;
    for (i64 left = a.k; left > 0; left -= DEPTH) {
      copies_wait<P::STAGES - 2>();
      __syncthreads();
      rows.copy(stage[to].x);
      columns.copy(stage[to].w);
      copies_commit();
      const Stage &now = stage[from];
      from = from == P::STAGES - 1 ? 0 : from + 1;
      to = to == P::STAGES - 1 ? 0 : to + 1;
      X x[2];
      W w[2];
      auto read = [&](i32 k, i32 which) {
        x[which].read(now.x, k, row0);
        w[which].read(now.w, k, column0);
      };
      auto multiply = [&](i32 which) {
#pragma unroll
        for (i32 q = 0; q < Q; q++) {
#pragma unroll
          for (i32 i = 0; i < P::MT; i++) {
#pragma unroll
            for (i32 j = 0; j < P::NT; j++) sum[i][j] = fma_(x[which].at(q, i), w[which].at(q, j), sum[i][j]);
          }
        }
      };
      // What is beyond k adds nothing, rather than +0: a sum of small numbers may have rounded to -0.
      if (left >= DEPTH) {
        read(0, 0);
#pragma unroll
        for (i32 k = 0; k < DEPTH; k += Q) { // the next ones are on their way meanwhile
          if (k + Q < DEPTH) read(k + Q, (k / Q + 1) % 2);
          multiply(k / Q % 2);
        }
      } else {
#pragma unroll 1
        for (i32 k = 0; k < (i32)left; k += Q) {
          read(k, 0);
          multiply(0);
        }
      }
    }
    copies_wait<0>();
    __syncthreads();
#pragma unroll
    for (i32 j = 0; j < P::NT; j++) {
      i64 n = n0 + column0 + W::line_of(0, j);
      if (n >= a.n) continue;
      const f32 bias = bias_of<f32>(a, n);
      S *y = (S *)a.y + batch * a.y_batch + n * a.y_column;
#pragma unroll
      for (i32 i = 0; i < P::MT; i++) {
        i64 m = m0 + row0 + X::line_of(0, i);
        if (m < a.m) y[m * a.y_row] = Narrow<S>::from(sum[i][j] + bias);
      }
    }
  }
}

template <class S, class P> DEVICE void matmul_wide(const MatmulArgs &a) {
  __shared__ Pack<u8, 16> shared[P::BYTES / 16];
  if (a.input_across && a.other_across)
    matmul_wide<S, P, true, true>(a, shared);
  else if (a.other_across)
    matmul_wide<S, P, false, true>(a, shared);
  else if (a.input_across)
    matmul_wide<S, P, true, false>(a, shared);
  else
    matmul_wide<S, P, false, false>(a, shared);
}

// Registers are for so many blocks of threads per multiprocessor.
#define WIDE(name, S, blocks, ...) \
  KERNEL_OF(matmul_##name##_sm80_##S, MatmulArgs, 128, blocks) { matmul_wide<S, WideShape<__VA_ARGS__>>(a); }
WIDE(wide, f32, 2, 16, 8, 2, 2, 8, 4)
WIDE(wide, f16, 2, 16, 8, 2, 2, 8, 4)
WIDE(wide, bf16, 2, 16, 8, 2, 2, 8, 4)
WIDE(small, f32, 4, 8, 4, 2, 2, 8, 4)
