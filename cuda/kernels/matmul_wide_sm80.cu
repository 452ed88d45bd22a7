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

// How a factor lies: along k, or across, where neighbours in memory belong to neighbouring
// lines. Either is known when the kernel runs, of 32-bit types, whose slabs are alike.
enum { along_, across_, either_ };

// A step of LINES lines of a factor in shared memory, neighbouring lines side by side for
// each k, or where 16-bit ones lie along k for each pair of those.
template <class S, class P, i32 LIES, i32 LINES_> struct Slab {
  static constexpr i32 LINES = LINES_, E = 4 / sizeof(S), DEPTH = P::STEP * E; // elements of a word; k's of a step
  static constexpr bool PAIRS = LIES == along_ && E == 2;
  static constexpr i32 PITCH = LINES / (PAIRS ? 1 : E) + 4; // words; more than needed, to spread copies over the banks
  u32 word[PAIRS ? P::STEP : DEPTH][PITCH];
};

// Where slabs of a factor come from. A factor along k is turned when it is copied, word by
// word; else 16 bytes are copied at once.
template <class S, class P, i32 LIES, i32 LINES> struct SlabSource {
  typedef Slab<S, P, LIES, LINES> To;
  static constexpr i32 E = To::E;
  const u8 *next;
  i64 apart, step; // bytes from a copy to the next, and from a step to the next
  i32 left; // elements along k from this thread's first one on
  u32 inside; // a bit for each copy
  bool lies_across;

  // Threads side by side make a line's copies, or a row's where a factor lies ACROSS.
  template <bool ACROSS> struct Share {
    static constexpr i32 SIDE = ACROSS ? LINES / E / 4 : P::STEP, APART = P::THREADS / SIDE;
    static constexpr i32 EACH = (ACROSS ? To::DEPTH : LINES) / APART;
    static_assert(EACH * APART == (ACROSS ? To::DEPTH : LINES));
    static DEVICE i32 side() { return threadIdx.x % SIDE; }
    static DEVICE i32 at(i32 copy) { return threadIdx.x / SIDE + copy * APART; }
  };

  DEVICE SlabSource(const Factor &f, bool across, i64 batch, i64 first, i64 depth)
      : lies_across(LIES == either_ ? across : LIES == across_) {
    next = (const u8 *)f.data + (batch * f.batch + first * f.line) * (i64)sizeof(S);
    step = To::DEPTH * f.k * (i64)sizeof(S);
    if (lies_across)
      start<true>(f, first, depth);
    else
      start<false>(f, first, depth);
  }
  template <bool ACROSS> DEVICE void start(const Factor &f, i64 first, i64 depth) {
    typedef Share<ACROSS> By;
    const i64 k = ACROSS ? By::at(0) : By::side() * E, line = ACROSS ? By::side() * 4 * E : By::at(0);
    next += (line * f.line + k * f.k) * (i64)sizeof(S);
    apart = By::APART * (ACROSS ? f.k : f.line) * (i64)sizeof(S);
    left = (i32)(depth - k);
    inside = 0;
#pragma unroll
    for (i32 u = 0; u < By::EACH; u++) inside |= (u32)(first + line + (ACROSS ? 0 : u * By::APART) < f.lines) << u;
  }
  DEVICE void copy(To &to) {
    if (lies_across)
      copy_as<true>(to);
    else
      copy_as<false>(to);
    next += step;
    left -= To::DEPTH;
  }
  template <bool ACROSS> DEVICE void copy_as(To &to) {
    typedef Share<ACROSS> By;
#pragma unroll
    for (i32 u = 0; u < By::EACH; u++) {
      const bool here = (inside >> u & 1) && (ACROSS ? u * By::APART : 0) < left;
      if constexpr (ACROSS)
        copy_async(&to.word[By::at(u)][By::side() * 4], next + u * apart, here);
      else
        copy_async<4>(&to.word[By::side()][By::at(u)], next + u * apart, here);
    }
  }
};

// What a thread multiplies at once: Q products of EACH lines, as they lie in shared memory.
// LANES threads of a warp have different lines, G of them side by side.
template <class S, class From, i32 EACH, i32 LANES, i32 Q> struct Fragment {
  static constexpr bool PAIRS = From::PAIRS;
  static constexpr i32 G = 16 / sizeof(S), ROWS = PAIRS ? 1 : Q, OF_WORD = PAIRS ? 1 : From::E;
  static_assert(!PAIRS || Q == 2);
  Pack<u32, 4> pack[ROWS][EACH / OF_WORD / 4];

  static DEVICE i32 line_of(i32 lane, i32 j) { return G * lane + j / G * (LANES * G) + j % G; }

  DEVICE void read(const From &from, i32 k, i32 line) {
#pragma unroll
    for (i32 r = 0; r < ROWS; r++) {
#pragma unroll
      for (i32 j = 0; j < EACH; j += 4 * OF_WORD)
        pack[r][j / OF_WORD / 4] =
            *(const Pack<u32, 4> *)&from.word[PAIRS ? k / 2 : k + r][(line + line_of(0, j)) / OF_WORD];
    }
  }
  // The number of line j at product q.
  DEVICE f32 at(i32 q, i32 j) const {
    const u32 w = pack[PAIRS ? 0 : q][j / OF_WORD / 4].v[j / OF_WORD % 4];
    if constexpr (sizeof(S) == 4) return from_bits(w);
    const bool upper = (PAIRS ? q : j) % 2;
    if constexpr (is_bf16<S>) return from_bits(upper ? w & 0xffff0000 : w << 16);
    return half_to_float((u16)(upper ? w >> 16 : w));
  }
};

// A thread's share of a tile from row m0 and column n0 on.
template <class S, class P> struct WideTile {
  static constexpr i32 E = 4 / sizeof(S), DEPTH = P::STEP * E;
  const MatmulArgs &a;
  i64 batch, m0, n0;
  i32 row, column; // this thread's first ones
  f32 sum[P::MT][P::NT];

  // Adds up the products of factors that lie so that words or chunks can be copied at once.
  template <i32 XL, i32 WL> DEVICE void add(void *shared) {
    typedef SlabSource<S, P, XL, P::TM> Rows;
    typedef SlabSource<S, P, WL, P::TN> Columns;
    constexpr i32 Q = Rows::To::PAIRS || Columns::To::PAIRS ? 2 : 1; // products at once
    typedef Fragment<S, typename Rows::To, P::MT, 4, Q> X;
    typedef Fragment<S, typename Columns::To, P::NT, 8, Q> W;
    struct Stage {
      typename Rows::To x;
      typename Columns::To w;
    };
    static_assert(sizeof(Stage) * P::STAGES <= P::BYTES);
    Stage *stage = (Stage *)shared;
    row = threadIdx.x / 32 % P::MS * (4 * P::MT) + X::line_of(threadIdx.x % 32 / 8, 0);
    column = threadIdx.x / 32 / P::MS * (8 * P::NT) + W::line_of(threadIdx.x % 8, 0);
    Rows rows(a.input, a.input_across, batch, m0, a.k);
    Columns columns(a.other, a.other_across, batch, n0, a.k);
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
        x[which].read(now.x, k, row);
        w[which].read(now.w, k, column);
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
  }
  DEVICE void store() const {
    typedef Slab<S, P, across_, 4> Any;
#pragma unroll
    for (i32 j = 0; j < P::NT; j++) {
      i64 n = n0 + column + Fragment<S, Any, P::NT, 8, 1>::line_of(0, j);
      if (n >= a.n) continue;
      const f32 bias = bias_of<f32>(a, n);
      S *y = (S *)a.y + batch * a.y_batch + n * a.y_column;
#pragma unroll
      for (i32 i = 0; i < P::MT; i++) {
        i64 m = m0 + row + Fragment<S, Any, P::MT, 4, 1>::line_of(0, i);
        if (m < a.m) y[m * a.y_row] = Narrow<S>::from(sum[i][j] + bias);
      }
    }
  }
};

template <class S, class P> DEVICE void matmul_wide(const MatmulArgs &a) {
  __shared__ Pack<u8, 16> shared[P::BYTES / 16];
  const i64 across = (a.n + P::TN - 1) / P::TN, down = (a.m + P::TM - 1) / P::TM;
  for (i64 tile = blockIdx.x; tile < a.batch * down * across; tile += gridDim.x) {
    i64 band = div_(tile, across), batch = div_(band, down);
    WideTile<S, P> t = {a, batch, (band - batch * down) * P::TM, (tile - band * across) * P::TN};
    if constexpr (sizeof(S) == 4)
      t.template add<either_, either_>(shared);
    else if (a.input_across)
      a.other_across ? t.template add<across_, across_>(shared) : t.template add<across_, along_>(shared);
    else
      a.other_across ? t.template add<along_, across_>(shared) : t.template add<along_, along_>(shared);
    t.store();
  }
}

// Registers are for so many blocks of threads per multiprocessor.
#define WIDE(name, S, blocks, ...) \
  KERNEL_OF(matmul_##name##_sm80_##S, MatmulArgs, 128, blocks) { matmul_wide<S, WideShape<__VA_ARGS__>>(a); }
WIDE(wide, f32, 2, 16, 8, 2, 2, 8, 4)
WIDE(wide, f16, 2, 16, 8, 2, 2, 8, 4)
WIDE(wide, bf16, 2, 16, 8, 2, 2, 8, 4)
WIDE(small, f32, 4, 8, 4, 2, 2, 8, 4)
