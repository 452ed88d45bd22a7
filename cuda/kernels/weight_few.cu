#include "weight_only_linear.cuh"

const i32 few_threads = 256, few_own = 8; // lanes of Stripe order that a thread has
const i32 few_apart = few_threads * few_own / stripe_lanes; // columns of y that threads have side by side
const i32 few_run = 32; // codes that share their scale and zero point

template <class T> struct Shift {
  T scale, zero;
};

// An element of a parameter as it lies in memory: to convert it would be to wait for it.
struct Raw {
  u32 bits;

  DEVICE void load(const Tensor &t, i64 i) {
    switch (t.dtype) {
    case none_:
      break;
    case s8_:
    case u8_:
      bits = ((const u8 *)t.data)[i];
      break;
    case f16_:
    case bf16_:
    case s16_:
    case u16_:
      bits = ((const u16 *)t.data)[i];
      break;
    default:
      bits = ((const u32 *)t.data)[i];
    }
  }
  DEVICE f32 value(const Tensor &t) const {
    switch (t.dtype) {
    case none_:
      return 0;
    case f32_:
      return from_bits(bits);
    case f16_:
      return half_to_float((u16)bits);
    case bf16_:
      return from_bits(bits << 16);
    case s8_:
      return (f32)(s8)bits;
    case s16_:
      return (f32)(s16)bits;
    default: // u8, u16, i32
      return (f32)(i32)bits;
    }
  }
};

// Eight codes of BITS bits, in order, as values: their bits, of which flip makes
// unsigned numbers, are the last ones of a float whose unit is 1.
template <i32 BITS> struct alignas(BITS) Codes {
  u32 word[BITS / 4];
  DEVICE void values(f32 (&v)[few_own], u32 flip) const {
    const f32 base = 8388608.0f + (f32)(flip & (1 << BITS) - 1);
#pragma unroll
    for (i32 e = 0; e < few_own; e++) {
      u32 code = (word[e * BITS / 32] ^ flip) >> e * BITS % 32 & (1 << BITS) - 1;
      v[e] = from_bits(0x4b000000 | code) - base;
    }
  }
};

// What a block of threads has of DEPTH positions: MT rows of x, and of each
// output the scale and the zero point of every run of codes.
template <class T, i32 MT, i32 NT, i32 DEPTH> struct alignas(16) FewSlice {
  static constexpr i32 CHUNKS = DEPTH / stripe_lanes, RUNS = DEPTH / few_run;
  T x[MT][CHUNKS][2][stripe_lanes / 2]; // halves of what a thread reads lie apart, for the sake of banks
  Shift<T> shift[NT * few_apart][RUNS];

  // Four values at position k of row m.
  DEVICE Pack<T, 4> *at(i32 m, i32 k) {
    return (Pack<T, 4> *)&x[m][k / stripe_lanes][k / 4 % 2][k % stripe_lanes / 2 & -4];
  }
};

// Outputs n0.. of rows m0.. of x. A thread has MT rows and NT columns of y, of
// which it adds up an eighth.
template <class X, i32 MT, i32 NT, i32 DEPTH, i32 BITS> struct WeightFew {
  typedef WeightOnlyLinear<X> Job;
  typedef typename Job::T T;
  typedef FewSlice<T, MT, NT, DEPTH> Slice;
  static constexpr i32 XS = MT * DEPTH / 4 / few_threads, SHIFTS = NT * few_apart * Slice::RUNS / few_threads;
  const WeightArgs &a;
  i64 m0, n0, rows, groups;
  i32 column, own;
  Codes<BITS> codes[NT][Slice::CHUNKS]; // what is on its way
  Pack<X, 4> x[XS];
  Raw scale[SHIFTS], zero[SHIFTS];
  T sum[NT][MT][few_own];

  DEVICE WeightFew(const WeightArgs &args, i64 m, i64 first) : a(args), m0(m), n0(first) {
    column = threadIdx.x / (stripe_lanes / few_own);
    own = threadIdx.x % (stripe_lanes / few_own) * few_own;
    rows = div_(a.stripe.reductions, a.n);
    groups = (a.k + a.group - 1) / a.group;
  }
  DEVICE void load(i64 k0) {
#pragma unroll
    for (i32 t = 0; t < NT; t++) {
      i64 n = n0 + column + t * few_apart;
#pragma unroll
      for (i32 c = 0; c < Slice::CHUNKS; c++) {
        i64 k = k0 + c * stripe_lanes + own;
        if (n < a.n && k < a.k)
          codes[t][c] = *(const Codes<BITS> *)((const u8 *)a.weight.data + (n * a.k + k) * BITS / 8);
      }
    }
#pragma unroll
    for (i32 u = 0; u < XS; u++) {
      i32 e = (threadIdx.x + u * few_threads) * 4;
      i64 m = m0 + e / DEPTH, k = k0 + e % DEPTH;
      if (m < rows && k < a.k) x[u] = *(const Pack<X, 4> *)((const X *)a.x.data + m * a.k + k);
    }
#pragma unroll
    for (i32 u = 0; u < SHIFTS; u++) {
      i32 e = threadIdx.x + u * few_threads;
      i64 row = n0 + e / Slice::RUNS, k = k0 + e % Slice::RUNS * few_run;
      if (row >= a.n || k >= a.k) continue;
      i64 group = row * groups + (u32)k / (u32)a.group;
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
      *slice.at(e / DEPTH, e % DEPTH) = v;
    }
#pragma unroll
    for (i32 u = 0; u < SHIFTS; u++) {
      i32 e = threadIdx.x + u * few_threads;
      Shift<T> s = {scale[u].value(a.scale), zero[u].value(a.zero)};
      if (a.learned) s.zero = round_zero(s.zero, (T)a.lo, (T)a.hi);
      slice.shift[e / Slice::RUNS][e % Slice::RUNS] = s;
    }
  }
  DEVICE void add(Slice &slice, const Codes<BITS> (&now)[NT][Slice::CHUNKS], i64 left, u32 flip) {
#pragma unroll
    for (i32 c = 0; c < Slice::CHUNKS; c++) {
      if (c * stripe_lanes + own >= left) continue;
      T w[NT][few_own];
#pragma unroll
      for (i32 t = 0; t < NT; t++) {
        now[t][c].values(w[t], flip);
        Shift<T> s = slice.shift[column + t * few_apart][(c * stripe_lanes + own) / few_run];
#pragma unroll
        for (i32 e = 0; e < few_own; e++) w[t][e] = (w[t][e] - s.zero) * s.scale;
      }
#pragma unroll
      for (i32 m = 0; m < MT; m++) {
#pragma unroll
        for (i32 h = 0; h < 2; h++) {
          Pack<T, 4> v = *slice.at(m, c * stripe_lanes + own + 4 * h);
#pragma unroll
          for (i32 t = 0; t < NT; t++) {
#pragma unroll
            for (i32 e = 0; e < 4; e++) sum[t][m][4 * h + e] += v.v[e] * w[t][4 * h + e];
          }
        }
      }
    }
  }
  DEVICE void run(Slice (&slice)[2], i64 k0, i64 stop) {
    const u32 flip = a.weight.dtype == s8_ ? 0x80808080 : a.weight.dtype == s4_ ? 0x88888888 : 0;
#pragma unroll
    for (i32 v = 0; v < NT * MT * few_own; v++) sum[v / (MT * few_own)][v / few_own % MT][v % few_own] = 0;
    load(k0);
    for (i32 s = 0; k0 < stop; k0 += DEPTH, s ^= 1) {
      Codes<BITS> now[NT][Slice::CHUNKS];
#pragma unroll
      for (i32 c = 0; c < NT * Slice::CHUNKS; c++)
        now[c / Slice::CHUNKS][c % Slice::CHUNKS] = codes[c / Slice::CHUNKS][c % Slice::CHUNKS];
      put(slice[s]);
      __syncthreads();
      if (k0 + DEPTH < stop) load(k0 + DEPTH);
      add(slice[s], now, stop - k0, flip);
    }
  }
  // Lanes 32 apart are 4 threads apart, and so on; the last three steps are
  // within a thread. Of the threads that then know a sum another one stores each.
  DEVICE void finish(i64 block) {
    const i32 self = own / few_own;
    T mine[NT];
#pragma unroll
    for (i32 v = 0; v < NT * MT; v++) {
      const i32 t = v / MT, m = v % MT;
      T(&s)[few_own] = sum[t][m];
#pragma unroll
      for (i32 step = 4; step > 0; step /= 2) {
#pragma unroll
        for (i32 e = 0; e < few_own; e++) s[e] += __shfl_xor_sync(0xffffffff, s[e], step);
      }
#pragma unroll
      for (i32 step = 4; step > 0; step /= 2) {
#pragma unroll
        for (i32 e = 0; e < step; e++) s[e] += s[e + step];
      }
      if (m == self) mine[t] = s[0];
    }
    if (self >= MT || m0 + self >= rows) return;
#pragma unroll
    for (i32 t = 0; t < NT; t++) {
      i64 n = n0 + column + t * few_apart, c = (m0 + self) * a.n + n;
      if (n >= a.n) continue;
      T sums[1] = {mine[t]};
      if (a.stripe.blocks == 1)
        Job::finish(a, c, sums);
      else
        ((T *)a.stripe.partial)[c * a.stripe.blocks + block] = sums[0];
    }
  }
};

// weight_only_linear where codes are compact and runs of them belong to a
// group. A block of threads has MT rows of x.
template <class X, i32 MT, i32 NT, i32 DEPTH, i32 BITS> DEVICE void weight_few(const WeightArgs &a, void *shared) {
  typedef WeightFew<X, MT, NT, DEPTH, BITS> Few;
  const i32 columns = NT * few_apart;
  const i64 down = (div_(a.stripe.reductions, a.n) + MT - 1) / MT, across = (a.n + columns - 1) / columns;
  for (i64 w = blockIdx.x; w < down * across * a.stripe.blocks; w += gridDim.x) {
    i64 tile = div_(w, a.stripe.blocks), block = w - tile * a.stripe.blocks;
    i64 band = div_(tile, down), stop = (block + 1) * stripe_block;
    Few few(a, (tile - band * down) * MT, band * columns);
    few.run(*(typename Few::Slice(*)[2])shared, block * stripe_block, stop < a.k ? stop : a.k);
    few.finish(block);
    __syncthreads();
  }
}

template <class X, i32 MT, i32 NT, i32 DEPTH> DEVICE void weight_few(const WeightArgs &a) {
  __shared__ FewSlice<typename Compute<X>::type, MT, NT, DEPTH> slice[2];
  if (a.weight.dtype == s4_ || a.weight.dtype == u4_)
    weight_few<X, MT, NT, DEPTH, 4>(a, slice);
  else
    weight_few<X, MT, NT, DEPTH, 8>(a, slice);
}

// The more rows, the more registers sums take, and the less shared memory is left for each.
#define WEIGHT_FEW(X)                                                  \
  KERNEL(weight_row_##X, WeightArgs) { weight_few<X, 1, 1, 1024>(a); } \
  KERNEL(weight_four_##X, WeightArgs) { weight_few<X, 4, 1, 256>(a); } \
  KERNEL(weight_few_##X, WeightArgs) { weight_few<X, 8, 2, 128>(a); }
WEIGHT_FEW(f32)
WEIGHT_FEW(bf16)
