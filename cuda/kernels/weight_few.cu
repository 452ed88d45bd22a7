#include "weight_only_linear.cuh"

const i32 few_threads = 256, few_own = 4; // lanes of Stripe order that a thread has
const i32 few_apart = few_threads * few_own / stripe_lanes; // columns of y that threads have side by side
const i32 few_run = 32; // codes that share their scale and zero point

template <class T> struct Shift {
  T scale, zero;
};

// Codes of BITS bits, in order. Flipped, they are unsigned numbers, and those the last bits
// of a float whose unit is 1.
template <i32 BITS> struct Codes;
template <> struct Codes<8> {
  u32 word;
  DEVICE f32 value(i32 e, u32 flip) const { return from_bits(__byte_perm(word ^ flip, 0x4b000000, 0x7440 + e)); }
};
template <> struct Codes<4> {
  u16 word;
  DEVICE f32 value(i32 e, u32 flip) const {
    u32 w = word ^ flip, even = w & 0x0f0f, odd = w >> 4 & 0x0f0f;
    return from_bits(__byte_perm(e % 2 ? odd : even, 0x4b000000, 0x7440 + e / 2));
  }
};

// What a block of threads has of DEPTH positions: MT rows of x, and of each
// output the scale and the zero point of every run of codes.
template <class T, i32 MT, i32 NT, i32 DEPTH> struct alignas(16) FewSlice {
  static constexpr i32 CHUNKS = DEPTH / stripe_lanes, RUNS = DEPTH / few_run;
  Pack<T, 4> x[MT][DEPTH / 4];
  Shift<T> shift[NT * few_apart][RUNS + 1]; // one more, for the sake of banks
};

// Outputs n0.. of rows m0.. of x. A thread has MT rows and NT columns of y, of
// which it adds up a sixteenth. FAR: zero points may be any numbers.
template <class X, i32 MT, i32 NT, i32 DEPTH, i32 BITS, bool FAR> struct WeightFew {
  typedef WeightOnlyLinear<X> Job;
  typedef typename Job::T T;
  typedef FewSlice<T, MT, NT, DEPTH> Slice;
  static constexpr i32 XS = MT * DEPTH / 4 / few_threads, SHIFTS = NT * few_apart * Slice::RUNS / few_threads;
  static constexpr i32 V = MT * NT, threads = stripe_lanes / few_own; // sums; threads that have one's lanes
  const WeightArgs &a;
  i64 m0, n0, rows;
  i32 column, self, left; // left: k's from this thread's first lane on
  u32 flip;
  const u8 *next[NT];
  Codes<BITS> codes[NT][Slice::CHUNKS]; // what is on its way
  Pack<X, 4> x[XS];
  Raw scale[SHIFTS], zero[SHIFTS];
  T sum[V][few_own];

  DEVICE WeightFew(const WeightArgs &args, i64 m, i64 first, i64 k0) : a(args), m0(m), n0(first) {
    column = threadIdx.x / threads;
    self = threadIdx.x % threads;
    rows = div_(a.stripe.reductions, a.n);
    flip = a.weight.dtype == s8_ ? 0x80808080 : a.weight.dtype == s4_ ? 0x88888888 : 0;
    left = (i32)(a.k - k0) - self * few_own;
#pragma unroll
    for (i32 t = 0; t < NT; t++) { // a column that is not there is the last one
      i64 n = n0 + column + t * few_apart;
      n = n < a.n ? n : a.n - 1;
      next[t] = (const u8 *)a.weight.data + (n * a.k + k0 + self * few_own) * BITS / 8;
    }
  }
  // What a code's float has beside the code.
  DEVICE T base() const { return (T)(8388608 + (i32)(flip & (1 << BITS) - 1)); }

  DEVICE void load_codes(i32 t, i32 c) {
    if (c * stripe_lanes < left) codes[t][c] = *(const Codes<BITS> *)(next[t] + c * stripe_lanes * BITS / 8);
  }
  // What all threads share, from position k0 on.
  DEVICE void load(i32 k0) {
#pragma unroll
    for (i32 u = 0; u < XS; u++) {
      i32 e = (threadIdx.x + u * few_threads) * 4, k = k0 + e % DEPTH;
      i64 m = m0 + e / DEPTH;
      x[u] = {};
      if (m < rows && k < a.k) x[u] = *(const Pack<X, 4> *)((const X *)a.x.data + m * a.k + k);
    }
#pragma unroll
    for (i32 u = 0; u < SHIFTS; u++) {
      i32 e = threadIdx.x + u * few_threads, k = k0 + e % Slice::RUNS * few_run;
      i64 row = n0 + e / Slice::RUNS;
      scale[u].bits = zero[u].bits = 0;
      if (row >= a.n || k >= a.k) continue;
      i64 group = row * a.groups + a.group_of.of(k);
      scale[u].load(a.scale, group);
      zero[u].load(a.zero, group);
    }
  }
  DEVICE void put(Slice &slice) const {
#pragma unroll
    for (i32 u = 0; u < XS; u++) {
      i32 e = (threadIdx.x + u * few_threads) * 4;
      Pack<T, 4> v;
#pragma unroll
      for (i32 j = 0; j < 4; j++) v.v[j] = widen<T>(x[u].v[j]);
      slice.x[e / DEPTH][e % DEPTH / 4] = v;
    }
#pragma unroll
    for (i32 u = 0; u < SHIFTS; u++) {
      i32 e = threadIdx.x + u * few_threads;
      Shift<T> s = {scale[u].value(a.scale), zero[u].value(a.zero)};
      if (a.learned) s.zero = round_zero(s.zero, (T)a.lo, (T)a.hi);
      if (!FAR) s.zero += base(); // which is exact
      slice.shift[e / Slice::RUNS][e % Slice::RUNS] = s;
    }
  }
  // Asks for the next codes as it goes. What is beyond k has a scale and an x of 0, and terms
  // of zeros, which change no sum.
  DEVICE void add(const Slice &slice) {
#pragma unroll
    for (i32 c = 0; c < Slice::CHUNKS; c++) {
      T w[NT][few_own];
#pragma unroll
      for (i32 t = 0; t < NT; t++) {
        Shift<T> s = slice.shift[column + t * few_apart][(c * stripe_lanes + self * few_own) / few_run];
#pragma unroll
        for (i32 e = 0; e < few_own; e++) {
          T q = codes[t][c].value(e, flip);
          w[t][e] = (FAR ? q - base() - s.zero : q - s.zero) * s.scale;
        }
        load_codes(t, c);
      }
#pragma unroll
      for (i32 m = 0; m < MT; m++) {
        Pack<T, 4> v = slice.x[m][(c * stripe_lanes + self * few_own) / 4];
#pragma unroll
        for (i32 t = 0; t < NT; t++) {
#pragma unroll
          for (i32 e = 0; e < few_own; e++) sum[t * MT + m][e] += v.v[e] * w[t][e];
        }
      }
    }
  }
  DEVICE void run(Slice (&slice)[2], i32 k0, i32 stop) {
#pragma unroll
    for (i32 v = 0; v < V * few_own; v++) sum[v / few_own][v % few_own] = 0;
#pragma unroll
    for (i32 c = 0; c < NT * Slice::CHUNKS; c++) load_codes(c % NT, c / NT);
    load(k0);
    for (i32 s = 0; k0 < stop; k0 += DEPTH, s ^= 1) {
      put(slice[s]);
      __syncthreads();
      if (k0 + DEPTH < stop) load(k0 + DEPTH);
      left -= DEPTH;
#pragma unroll
      for (i32 t = 0; t < NT; t++) next[t] += DEPTH * BITS / 8;
      add(slice[s]);
    }
  }
  // Adds lanes that threads STEP apart have, of HAVE sums; each goes on with half of them, as
  // long as there are several.
  template <i32 HAVE, i32 STEP> DEVICE void fold() {
    constexpr i32 rest = HAVE > 1 ? HAVE / 2 : 1;
    const bool upper = HAVE > 1 && (self & STEP);
#pragma unroll
    for (i32 v = 0; v < rest; v++) {
#pragma unroll
      for (i32 e = 0; e < few_own; e++) {
        T low = sum[v][e], high = sum[HAVE > 1 ? v + rest : v][e];
        sum[v][e] = (upper ? high : low) + __shfl_xor_sync(0xffffffff, upper ? low : high, STEP);
      }
    }
    if constexpr (STEP > 1) fold<rest, STEP / 2>();
  }
  // Lanes 32 apart are 8 threads apart, and so on; the last two steps are within a thread.
  DEVICE void finish(i64 block) {
    fold<V, threads / 2>();
    T(&s)[few_own] = sum[0];
#pragma unroll
    for (i32 step = few_own / 2; step > 0; step /= 2) {
#pragma unroll
      for (i32 e = 0; e < step; e++) s[e] += s[e + step];
    }
    const i32 v = self * V / threads;
    const i64 m = m0 + v % MT, n = n0 + column + v / MT * few_apart, c = m * a.n + n;
    if (self % (threads / V) != 0 || m >= rows || n >= a.n) return;
    T sums[1] = {s[0]};
    if (a.stripe.blocks == 1)
      Job::finish(a, c, sums);
    else
      ((T *)a.stripe.partial)[c * a.stripe.blocks + block] = sums[0];
  }
};

// weight_only_linear where codes are compact and runs of them belong to a
// group. A block of threads has MT rows of x.
template <class X, i32 MT, i32 NT, i32 DEPTH, i32 BITS, bool FAR>
DEVICE void weight_few(const WeightArgs &a, void *shared) {
  typedef WeightFew<X, MT, NT, DEPTH, BITS, FAR> Few;
  const i32 columns = NT * few_apart;
  const i64 down = (div_(a.stripe.reductions, a.n) + MT - 1) / MT, across = (a.n + columns - 1) / columns;
  for (i64 w = blockIdx.x; w < down * across * a.stripe.blocks; w += gridDim.x) {
    i64 tile = div_(w, a.stripe.blocks), block = w - tile * a.stripe.blocks;
    i64 band = div_(tile, down), k0 = block * stripe_block, stop = k0 + stripe_block;
    Few few(a, (tile - band * down) * MT, band * columns, k0);
    few.run(*(typename Few::Slice(*)[2])shared, (i32)k0, (i32)(stop < a.k ? stop : a.k));
    few.finish(block);
    __syncthreads();
  }
}

template <class X, i32 MT, i32 NT, i32 DEPTH> DEVICE void weight_few(const WeightArgs &a) {
  __shared__ FewSlice<typename Compute<X>::type, MT, NT, DEPTH> slice[2];
  const bool packed = a.weight.dtype == s4_ || a.weight.dtype == u4_;
  if (a.zero.dtype == i32_)
    packed ? weight_few<X, MT, NT, DEPTH, 4, true>(a, slice) : weight_few<X, MT, NT, DEPTH, 8, true>(a, slice);
  else
    packed ? weight_few<X, MT, NT, DEPTH, 4, false>(a, slice) : weight_few<X, MT, NT, DEPTH, 8, false>(a, slice);
}

// The more rows, the more registers sums take, and the less shared memory is left for each.
#define WEIGHT_FEW(X)                                                         \
  KERNEL_FIT(weight_row_##X, WeightArgs, 2) { weight_few<X, 1, 1, 1024>(a); } \
  KERNEL_FIT(weight_four_##X, WeightArgs, 2) { weight_few<X, 4, 1, 512>(a); } \
  KERNEL_FIT(weight_few_##X, WeightArgs, 2) { weight_few<X, 8, 2, 256>(a); }
WEIGHT_FEW(f32)
WEIGHT_FEW(bf16)
