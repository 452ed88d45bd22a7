#include "mma.cuh"
#include "quantized_linear_per_group.cuh"

const i32 step_runs = 2; // of 32 codes, each of one group, that a step stages of each row

// A block of threads computes TM by TN elements of y. Its warps lie WM by WN.
template <i32 TN_, i32 STAGES_, i32 BITS_> struct GroupShape {
  static constexpr i32 TM = 64, TN = TN_, WM = 2, WN = 4, STAGES = STAGES_, BITS = BITS_;
  static constexpr i32 MS = TM / WM / 16, NS = TN / WN / 8; // of the tensor cores' tiles, of a warp
  typedef ChunkTile<TM, 2 * step_runs, group_threads> Rows;
  typedef ChunkTile<TN, BITS * step_runs / 4, group_threads> Columns;
};

template <class P> struct alignas(128) GroupStage {
  typename P::Rows x;
  typename P::Columns weight;
};

// What the groups have that a step's runs are of.
template <i32 TN> struct GroupParams {
  f32 scale[step_runs][TN];
  i32 zero[step_runs][TN];
};

// What a block of threads has in shared memory: in the end, its elements of y.
template <class P> struct GroupShared {
  GroupParams<P::TN> params[2];
  f32 x_scale[P::TM];
  i32 x_zero[P::TM];
  union {
    GroupStage<P> stage[P::STAGES];
    f32 y[P::TM][P::TN + 1];
  };
};

// A warp's MS * 16 by NS * 8 elements of y. A thread has those that multiply_codes gives it.
template <class P> struct GroupWarp {
  static constexpr i32 TM = P::TM, TN = P::TN, MS = P::MS, NS = P::NS;
  const GroupLinearArgs &a;
  i64 m0, n0;
  i32 lane, row0, column0, runs, group_runs;
  bool sums_x, sums_w; // whether they are needed
  i32 acc[MS][NS][4], x_sum[MS][4], w_sum[NS][4]; // of the group so far; products with ones are sums
  f32 y[MS][NS][4];
  Raw scale, zero; // what is on its way

  DEVICE GroupWarp(const GroupLinearArgs &args, i64 m, i64 n) : a(args), m0(m), n0(n) {
    const i32 warp = threadIdx.x / 32;
    lane = threadIdx.x % 32;
    row0 = warp / P::WN * MS * 16;
    column0 = warp % P::WN * NS * 8;
    runs = (i32)(a.k / 32);
    group_runs = (i32)a.runs_of.by;
    sums_x = a.zero.dtype != none_ || a.weight_codes.shift != 0;
    sums_w = a.x_zero.dtype != none_ || a.x_codes.shift != 0;
    clear();
#pragma unroll
    for (i32 v = 0; v < MS * NS * 4; v++) y[v / 4 / NS][v / 4 % NS][v % 4] = -(f32)0;
  }
  // Shares what rows of x have.
  DEVICE void put_rows(f32 (&x_scale)[TM], i32 (&x_zero)[TM]) const {
    const i64 m = m0 + threadIdx.x;
    if (threadIdx.x >= TM || m >= a.m) return;
    x_scale[threadIdx.x] = get_any<f32>(a.x_scale, m);
    x_zero[threadIdx.x] = zero_point(a.x_codes, get_any<f32>(a.x_zero, m));
  }
  DEVICE void clear() {
#pragma unroll
    for (i32 e = 0; e < 4; e++) {
#pragma unroll
      for (i32 i = 0; i < MS; i++) {
        x_sum[i][e] = 0;
#pragma unroll
        for (i32 j = 0; j < NS; j++) acc[i][j][e] = 0;
      }
#pragma unroll
      for (i32 j = 0; j < NS; j++) w_sum[j][e] = 0;
    }
  }
  // Asks for the parameters of a step's runs, one for a thread.
  DEVICE void load(i32 step) {
    const i32 run = step * step_runs + threadIdx.x / TN;
    const i64 n = n0 + threadIdx.x % TN;
    scale.bits = zero.bits = 0;
    if (threadIdx.x >= step_runs * TN || run >= runs || n >= a.n) return;
    const i64 group = n * a.groups + a.runs_of.of(run);
    scale.load(a.scale, group);
    zero.load(a.zero, group);
  }
  DEVICE void put(GroupParams<TN> &to) const {
    if (threadIdx.x >= step_runs * TN) return;
    to.scale[threadIdx.x / TN][threadIdx.x % TN] = scale.value(a.scale);
    to.zero[threadIdx.x / TN][threadIdx.x % TN] = zero_point(a.weight_codes, zero.value(a.zero));
  }
  // Multiplies a run. Packed codes are taken apart into even ones and odd ones, and so are those of x beside them.
  DEVICE void multiply(GroupStage<P> &stage, i32 run) {
    u32 x[MS][4], w[NS][2];
    const i32 t = lane % 4;
#pragma unroll
    for (i32 i = 0; i < MS; i++) {
      const i32 row = row0 + 16 * i;
      if (P::BITS == 8) {
        load_matrices(x[i], stage.x.at(row + lane % 16, 2 * run + lane / 16));
      } else {
#pragma unroll
        for (i32 h = 0; h < 2; h++) {
          const auto *chunk = stage.x.at(row + 8 * h + lane / 4, 2 * run + t / 2);
          const Pack<u32, 2> eight = ((const Pack<u32, 2> *)chunk)[t % 2];
          x[i][h] = __byte_perm(eight.v[0], eight.v[1], 0x6420);
          x[i][2 + h] = __byte_perm(eight.v[0], eight.v[1], 0x7531);
        }
      }
#pragma unroll
      for (i32 v = 0; v < 4; v++) x[i][v] ^= a.x_codes.flip;
    }
#pragma unroll
    for (i32 j = 0; j < NS; j += P::BITS == 8 ? 2 : 4) {
      u32 r[4];
      if (P::BITS == 8)
        load_matrices(r, stage.weight.at(column0 + 8 * j + lane % 8 + lane / 16 * 8, 2 * run + lane / 8 % 2));
      else
        load_matrices(r, stage.weight.at(column0 + 8 * j + lane % (NS < 4 ? 8 * NS : 32), run));
#pragma unroll
      for (i32 v = 0; v < 4; v++) {
        r[v] ^= a.weight_codes.flip;
        if (P::BITS == 8) {
          w[j + v / 2][v % 2] = r[v];
        } else if (j + v < NS) {
          w[j + v][0] = r[v] & 0x0f0f0f0f;
          w[j + v][1] = r[v] >> 4 & 0x0f0f0f0f;
        }
      }
    }
    const u32 ones[4] = {each_one, each_one, each_one, each_one};
#pragma unroll
    for (i32 i = 0; i < MS; i++) {
#pragma unroll
      for (i32 j = 0; j < NS; j++) multiply_codes(acc[i][j], x[i], w[j][0], w[j][1]);
      if (sums_x) multiply_codes(x_sum[i], x[i], each_one, each_one);
    }
#pragma unroll
    for (i32 j = 0; sums_w && j < NS; j++) multiply_codes(w_sum[j], ones, w[j][0], w[j][1]);
  }
  // Adds a group's term, of so many codes, with the parameters of one of a step's runs.
  DEVICE void finish(const GroupShared<P> &shared, i32 step, i32 run, i32 codes) {
    const GroupParams<TN> &params = shared.params[step % 2];
#pragma unroll
    for (i32 j = 0; j < 2 * NS; j++) {
      const i32 column = column0 + j / 2 * 8 + lane % 4 * 2 + j % 2, zero = params.zero[run][column];
      const i32 sum = w_sum[j / 2][j % 2] - codes * zero;
      const f32 scale = params.scale[run][column];
#pragma unroll
      for (i32 i = 0; i < 2 * MS; i++) {
        const i32 row = row0 + 8 * i + lane / 4, e = i % 2 * 2 + j % 2;
        const i32 exact = exact_sum(acc[i / 2][j / 2][e], shared.x_zero[row], x_sum[i / 2][i % 2 * 2], zero, sum);
        y[i / 2][j / 2][e] += (f32)exact * (shared.x_scale[row] * scale);
      }
    }
    clear();
  }
  DEVICE void store(f32 (&all)[TM][TN + 1]) {
#pragma unroll
    for (i32 i = 0; i < 2 * MS; i++) {
#pragma unroll
      for (i32 j = 0; j < 2 * NS; j++)
        all[row0 + 8 * i + lane / 4][column0 + j / 2 * 8 + lane % 4 * 2 + j % 2] = y[i / 2][j / 2][i % 2 * 2 + j % 2];
    }
    __syncthreads();
    const i32 column = threadIdx.x % TN;
    const i64 n = n0 + column;
    if (n >= a.n) return;
    const f32 bias = get_any<f32>(a.bias, n);
#pragma unroll 1
    for (i32 row = threadIdx.x / TN; row < TM && m0 + row < a.m; row += group_threads / TN) {
      f32 v = all[row][column];
      if (a.has_bias) v += bias;
      set_any(a.y, (m0 + row) * a.n + n, v);
    }
  }
};

// quantized_linear_per_group where codes are compact and groups are whole runs.
template <class P> DEVICE void group_tiles(const GroupLinearArgs &a, GroupShared<P> &shared) {
  const i64 across = (a.n + P::TN - 1) / P::TN, down = (a.m + P::TM - 1) / P::TM;
  for (i64 tile = blockIdx.x; tile < across * down; tile += gridDim.x) {
    const i64 band = div_(tile, across), m0 = band * P::TM, n0 = (tile - band * across) * P::TN;
    ChunkSource<typename P::Rows> x(a.x.data, a.x_pitch, m0, a.m, a.k);
    ChunkSource<typename P::Columns> weight(a.weight.data, a.weight_pitch, n0, a.n, a.k * P::BITS / 8);
    GroupWarp<P> warp(a, m0, n0);
#pragma unroll
    for (i32 s = 0; s < P::STAGES - 1; s++) {
      x.copy(shared.stage[s].x);
      weight.copy(shared.stage[s].weight);
      copies_commit();
    }
    warp.load(0);
    warp.put(shared.params[0]);
    warp.put_rows(shared.x_scale, shared.x_zero);
    i32 from = 0, to = P::STAGES - 1, done = 0; // done: runs of the group
    for (i32 step = 0; step * step_runs < warp.runs; step++) {
      copies_wait<P::STAGES - 2>();
      __syncthreads();
      warp.load(step + 1);
      x.copy(shared.stage[to].x);
      weight.copy(shared.stage[to].weight);
      copies_commit();
#pragma unroll
      for (i32 r = 0; r < step_runs; r++) {
        const i32 run = step * step_runs + r;
        if (run >= warp.runs) break;
        warp.multiply(shared.stage[from], r);
        if (++done < warp.group_runs && run + 1 < warp.runs) continue;
        warp.finish(shared, step, r, 32 * done);
        done = 0;
      }
      warp.put(shared.params[(step + 1) % 2]);
      from = from == P::STAGES - 1 ? 0 : from + 1;
      to = to == P::STAGES - 1 ? 0 : to + 1;
    }
    copies_wait<0>();
    __syncthreads();
    warp.store(shared.y);
    __syncthreads();
  }
}

template <i32 TN, i32 STAGES> DEVICE void group_tiles(const GroupLinearArgs &a) {
  typedef GroupShared<GroupShape<TN, STAGES, 8>> Bytes;
  typedef GroupShared<GroupShape<TN, STAGES, 4>> Halves;
  __shared__ Bytes shared; // packed codes take less
  if (a.weight.dtype == s4_ || a.weight.dtype == u4_)
    group_tiles(a, *(Halves *)&shared);
  else
    group_tiles(a, shared);
}

KERNEL_FIT(group_linear_small_sm80, GroupLinearArgs, 2) { group_tiles<64, 4>(a); }
KERNEL_FIT(group_linear_wide_sm80, GroupLinearArgs, 2) { group_tiles<128, 3>(a); }
