// Dense reductions in Stripe order (NUMERICS.md, section 4): lane l of 64
// takes the positions l, l+64, ...; the lanes fold by halves; a reduction
// longer than 65,536 positions is cut into blocks of that many, each folded,
// whose results fold pairwise.
//
// A block of threads stages a tile of terms in shared memory, computed by all
// threads in whatever order memory likes, then adds them lane by lane in the
// contract's order. A tile belongs to one or to several reductions, so that
// short ones keep all threads busy too.
#pragma once
#include "dtypes.cuh"

const i32 stripe_threads = 256;
const i32 stripe_lanes = 64;
const i64 stripe_block = 65536;
const i32 stripe_channels = 32; // the most reductions in a tile

struct Stripe {
  i64 reductions, blocks; // blocks of the longest reduction
  i64 longest; // its positions
  i64 block; // positions of a block: stripe_block, but where join has no order
  void *partial; // [reductions][blocks][SUMS], where blocks > 1
  i32 log_channels; // of the number of reductions per tile
  i32 plain; // of rows.cuh: 1: tensors are compact, and positions lie in runs; 2: of whole spans, or in one
  void *lanes; // [blocks][lanes][reductions][SUMS], for rows.cuh's columns
  i32 log_threads, pad; // of the number of threads that share a reduction in its rows
};

// A Job says what is reduced:
//   Args (with a Stripe named stripe), T, SUMS per reduction
//   Channel: what its terms need, from start(args, reduction); has total, the number of positions
//   terms(args, channel, position, out[SUMS])
//   join(which, a, b): adds two sums, or whatever Stripe is used for
//   finish(args, reduction, sums)
// A tile is 16 KiB of terms, and its lanes' sums are at most as many.
DEVICE constexpr i32 tile_of(i32 bytes) { return bytes <= 8 ? 2048 : bytes <= 16 ? 1024 : 512; }

template <class Job> struct StripeTile {
  typedef typename Job::T T;
  static constexpr i32 tile = tile_of(sizeof(T) * Job::SUMS);
  T terms[Job::SUMS * (tile + stripe_channels)];
  T lanes[Job::SUMS * tile]; // [SUMS][channels][lanes]
  typename Job::Channel channel[stripe_channels];
};

DEVICE i64 stripe_tiles(const Stripe &s) { return (s.reductions + (1 << s.log_channels) - 1) >> s.log_channels; }

// Where one of the elements of a tile belongs: its reduction, and its position
// from the tile's first one.
struct TilePlace {
  i32 channel, position;
  DEVICE TilePlace(const Stripe &s, i32 element, i32 elements) {
    const i32 bits = __ffs(elements >> s.log_channels) - 1;
    channel = element >> bits;
    position = element & ((1 << bits) - 1);
  }
};

// Computes the terms of the tile whose first position is start into t.terms,
// [SUMS][channels][positions + 1]: the odd pitch keeps banks apart.
template <class Job>
DEVICE void stripe_stage(const typename Job::Args &a, StripeTile<Job> &t, i64 start, i32 positions) {
  const i32 each = StripeTile<Job>::tile / stripe_threads, S = Job::SUMS;
#pragma unroll 1
  for (i32 u = 0; u < each; u++) {
    TilePlace p(a.stripe, (i32)threadIdx.x + u * stripe_threads, StripeTile<Job>::tile);
    const typename Job::Channel &ch = t.channel[p.channel];
    typename Job::T out[S];
    for (i32 k = 0; k < S; k++) out[k] = 0;
    if (start + p.position < ch.total) Job::terms(a, ch, start + p.position, out);
    i32 at = p.channel * (positions + 1) + p.position;
    for (i32 k = 0; k < S; k++) t.terms[(k << a.stripe.log_channels) * (positions + 1) + at] = out[k];
  }
}

// Finishes a reduction of one block, or leaves what a block has for stripe_fold.
template <class Job>
DEVICE void put_sums(const typename Job::Args &a, i64 c, i64 block, const typename Job::T (&sums)[Job::SUMS]) {
  const Stripe &s = a.stripe;
  if (s.blocks == 1)
    Job::finish(a, c, sums);
  else
    for (i32 k = 0; k < Job::SUMS; k++)
      ((typename Job::T *)s.partial)[(c * s.blocks + block) * Job::SUMS + k] = sums[k];
}

// Reduces the positions of one block of the reductions [first, first+channels).
template <class Job> DEVICE void stripe_one(const typename Job::Args &a, StripeTile<Job> &t, i64 first, i64 block) {
  typedef typename Job::T T;
  const Stripe &s = a.stripe;
  const i32 S = Job::SUMS;
  const i32 channels = 1 << s.log_channels, positions = StripeTile<Job>::tile >> s.log_channels;
  const i32 lanes = S * channels * stripe_lanes;
  if ((i32)threadIdx.x < channels) {
    i64 c = first + threadIdx.x;
    t.channel[threadIdx.x].total = 0;
    if (c < s.reductions) t.channel[threadIdx.x] = Job::start(a, c);
  }
  for (i32 n = threadIdx.x; n < lanes; n += stripe_threads) t.lanes[n] = 0;
  __syncthreads();
  i64 stop = (block + 1) * stripe_block < s.longest ? (block + 1) * stripe_block : s.longest;
  for (i64 start = block * stripe_block; start < stop; start += positions) {
    stripe_stage<Job>(a, t, start, positions);
    __syncthreads();
    for (i32 n = threadIdx.x; n < lanes; n += stripe_threads) {
      const T *row = t.terms + n / stripe_lanes * (positions + 1) + n % stripe_lanes;
      T sum = t.lanes[n];
      for (i32 p = 0; p < positions; p += stripe_lanes)
        sum = Job::join(n / stripe_lanes >> s.log_channels, sum, row[p]);
      t.lanes[n] = sum;
    }
    __syncthreads();
  }
  for (i32 half = stripe_lanes / 2; half > 0; half /= 2) {
    for (i32 n = threadIdx.x; n < S * channels * half; n += stripe_threads) {
      i32 row = n / half, at = row * stripe_lanes + n % half;
      t.lanes[at] = Job::join(row >> s.log_channels, t.lanes[at], t.lanes[at + half]);
    }
    __syncthreads();
  }
  i64 c = first + threadIdx.x;
  if ((i32)threadIdx.x < channels && c < s.reductions) {
    T sums[S];
    for (i32 k = 0; k < S; k++) sums[k] = t.lanes[(k * channels + threadIdx.x) * stripe_lanes];
    put_sums<Job>(a, c, block, sums);
  }
  __syncthreads();
}

template <class Job> DEVICE void stripe(const typename Job::Args &a, StripeTile<Job> &t) {
  for (i64 w = blockIdx.x; w < stripe_tiles(a.stripe) * a.stripe.blocks; w += gridDim.x) {
    i64 tile = div_(w, a.stripe.blocks);
    stripe_one<Job>(a, t, tile << a.stripe.log_channels, w - tile * a.stripe.blocks);
  }
}

// Folds the blocks of each reduction pairwise: a thread 8 neighbours, a warp
// its threads' sums, a block its warps'. More are folded again, in place. What
// there is not is 0, which every job's join passes over.
template <class Job>
DEVICE void stripe_fold(const typename Job::Args &a, typename Job::T (*shared)[stripe_threads / 32]) {
  typedef typename Job::T T;
  const i32 S = Job::SUMS, each = 8, warps = stripe_threads / 32;
  const i64 piece = each * stripe_threads;
  const Stripe &s = a.stripe;
  for (i64 c = blockIdx.x; c < s.reductions; c += gridDim.x) {
    T *row = (T *)s.partial + c * s.blocks * S;
    const i64 total = Job::start(a, c).total;
    for (i64 n = total <= s.block ? 1 : (total + s.block - 1) / s.block, pieces = 0; pieces != 1; n = pieces) {
      pieces = (n + piece - 1) / piece;
      for (i64 from = 0; from < n; from += piece) {
        T sums[S];
#pragma unroll
        for (i32 k = 0; k < S; k++) {
          T v[each];
#pragma unroll
          for (i32 j = 0; j < each; j++) {
            i64 i = from + threadIdx.x * each + j;
            v[j] = i < n ? row[i * S + k] : (T)0;
          }
#pragma unroll
          for (i32 by = 1; by < each; by *= 2) {
            for (i32 j = 0; j < each; j += 2 * by) v[j] = Job::join(k, v[j], v[j + by]);
          }
#pragma unroll
          for (i32 by = 1; by < 32; by *= 2) v[0] = Job::join(k, v[0], __shfl_down_sync(0xffffffffu, v[0], by));
          if (threadIdx.x % 32 == 0) shared[k][threadIdx.x / 32] = v[0];
        }
        __syncthreads();
        if (threadIdx.x == 0) {
#pragma unroll
          for (i32 k = 0; k < S; k++) {
#pragma unroll
            for (i32 by = 1; by < warps; by *= 2) {
              for (i32 j = 0; j < warps; j += 2 * by) shared[k][j] = Job::join(k, shared[k][j], shared[k][j + by]);
            }
            sums[k] = shared[k][0];
          }
          if (pieces == 1)
            Job::finish(a, c, sums);
          else
            for (i32 k = 0; k < S; k++) row[from / piece * S + k] = sums[k];
        }
        __syncthreads();
      }
    }
  }
}

// What jobs share that sum.
struct Adding {
  static constexpr bool ANY_ORDER = false;
  template <class T> static DEVICE T join(i32, T a, T b) { return a + b; }
};

#define STRIPE_FOLD(name, Job)                                \
  KERNEL(name##_fold, Job::Args) {                            \
    __shared__ Job::T shared[Job::SUMS][stripe_threads / 32]; \
    stripe_fold<Job>(a, shared);                              \
  }

// Declares a job's two entry points.
#define STRIPE_KERNELS(name, Job)    \
  KERNEL_FIT(name, Job::Args, 3) {   \
    __shared__ StripeTile<Job> tile; \
    stripe<Job>(a, tile);            \
  }                                  \
  STRIPE_FOLD(name, Job)
