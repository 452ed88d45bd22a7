#include "quantized_linear_per_group.cuh"

const i32 run_codes = 32; // of one group
const i32 few_runs = 32; // that a step has of each row: a run for each thread of a warp

// What a block of threads has of MT rows of x: the two halves of runs, and their sums.
template <i32 MT> struct alignas(16) RunSlice {
  Pack<i32, 4> x[MT][2][few_runs];
  i32 sum[MT][few_runs];
};

// What a warp has of the same runs of NT rows of weight: exact sums for each row of x, and scales.
template <i32 MT, i32 NT> struct alignas(16) RunSums {
  Pack<i32, 4> sum[MT * NT][few_runs / 4 + 1]; // one more, for the sake of banks
  f32 scale[NT][few_runs];
};

// Rows m0.. of x and, for each warp, NT rows of weight of BITS bits a code. A thread multiplies one run
// of each with all rows of x; then it has one element of y, and adds up what its warp found.
template <i32 MT, i32 NT, i32 BITS> struct GroupFew {
  typedef RunSlice<MT> Slice;
  static constexpr i32 WORDS = BITS, PACKS = WORDS / 4; // of a run of codes
  const GroupLinearArgs &a;
  RunSums<MT, NT> &sums;
  i64 m0, n0;
  i32 lane, runs, group_runs, left; // runs of a row, of a group, and of the group that is being added up
  Pack<u32, 4> x[2], codes[NT][PACKS]; // what is on its way
  Raw scale[NT], zero[NT];
  i32 sum;
  f32 y, x_scale;
  i32 x_zero[MT];

  DEVICE GroupFew(const GroupLinearArgs &args, RunSums<MT, NT> &s, i64 m, i64 n) : a(args), sums(s), m0(m), n0(n) {
    lane = threadIdx.x % 32;
    runs = (i32)(a.k / run_codes);
    left = group_runs = (i32)a.runs_of.by;
    sum = 0;
    y = -(f32)0;
    x_scale = m0 + lane / NT < a.m ? get_any<f32>(a.x_scale, m0 + lane / NT) : 0;
    const i32 zero = m0 + lane < a.m && lane < MT ? zero_point(a.x_codes, get_any<f32>(a.x_zero, m0 + lane)) : 0;
#pragma unroll
    for (i32 i = 0; i < MT; i++) x_zero[i] = __shfl_sync(0xffffffff, zero, i);
  }
  // Asks for what runs from one on have; beyond a row, zeros.
  DEVICE void load(i32 first) {
    const i32 row = threadIdx.x / few_runs, run = first + lane;
    x[0] = x[1] = {};
    if (row < MT && m0 + row < a.m && run < runs) {
      const Pack<u32, 4> *from = (const Pack<u32, 4> *)((const u8 *)a.x.data + (m0 + row) * a.x_pitch) + 2 * run;
      x[0] = from[0];
      x[1] = from[1];
    }
#pragma unroll
    for (i32 t = 0; t < NT; t++) { // a row that is not there is the last one
      const i64 n = n0 + t < a.n ? n0 + t : a.n - 1;
      scale[t].bits = zero[t].bits = 0;
#pragma unroll
      for (i32 p = 0; p < PACKS; p++) codes[t][p] = {};
      if (run >= runs) continue;
      const Pack<u32, 4> *from = (const Pack<u32, 4> *)((const u8 *)a.weight.data + n * a.weight_pitch) + PACKS * run;
#pragma unroll
      for (i32 p = 0; p < PACKS; p++) codes[t][p] = from[p];
      const i64 group = n * a.groups + a.runs_of.of(run);
      scale[t].load(a.scale, group);
      zero[t].load(a.zero, group);
    }
  }
  // Packed codes become words of even ones and of odd ones: so those of x do, beside them.
  DEVICE void put(Slice &slice) const {
    const i32 row = threadIdx.x / few_runs;
    if (row >= MT) return;
    i32 total = 0;
#pragma unroll
    for (i32 h = 0; h < 2; h++) {
      Pack<i32, 4> v;
#pragma unroll
      for (i32 j = 0; j < 4; j += 2) {
        const u32 first = x[h].v[j] ^ a.x_codes.flip, second = x[h].v[j + 1] ^ a.x_codes.flip;
        v.v[j] = (i32)(BITS == 4 ? __byte_perm(first, second, 0x6420) : first);
        v.v[j + 1] = (i32)(BITS == 4 ? __byte_perm(first, second, 0x7531) : second);
        total = dot4(v.v[j + 1], each_one, dot4(v.v[j], each_one, total));
      }
      slice.x[row][h][lane] = v;
    }
    slice.sum[row][lane] = total;
  }
  // Eight words of four codes, of a row's run.
  DEVICE void unpack(i32 (&w)[8], const Pack<u32, 4> (&run)[PACKS]) const {
#pragma unroll
    for (i32 j = 0; j < 8; j++) {
      const u32 word = run[BITS == 4 ? 0 : j / 4].v[BITS == 4 ? j / 2 : j % 4] ^ a.weight_codes.flip;
      w[j] = (i32)(BITS == 4 ? word >> 4 * (j % 2) & 0x0f0f0f0f : word);
    }
  }
  // Multiplies what came, after asking for what comes next.
  DEVICE void multiply(const Slice &slice, i32 next) {
    i32 w[NT][8], w_zero[NT], w_sum[NT];
#pragma unroll
    for (i32 t = 0; t < NT; t++) {
      unpack(w[t], codes[t]);
      w_zero[t] = zero_point(a.weight_codes, zero[t].value(a.zero));
      w_sum[t] = -run_codes * w_zero[t];
#pragma unroll
      for (i32 j = 0; j < 8; j++) w_sum[t] = dot4(w[t][j], each_one, w_sum[t]);
      sums.scale[t][lane] = scale[t].value(a.scale);
    }
    if (next < runs) load(next);
#pragma unroll
    for (i32 i = 0; i < MT; i++) {
      const Pack<i32, 4> half[2] = {slice.x[i][0][lane], slice.x[i][1][lane]};
      const i32 x_sum = slice.sum[i][lane];
#pragma unroll
      for (i32 t = 0; t < NT; t++) {
        i32 dot = 0;
#pragma unroll
        for (i32 j = 0; j < 8; j++) dot = dot4(half[j / 4].v[j % 4], w[t][j], dot);
        sums.sum[i * NT + t][lane / 4].v[lane % 4] = exact_sum(dot, x_zero[i], x_sum, w_zero[t], w_sum[t]);
      }
    }
  }
  // Adds up runs from one on, group after group.
  DEVICE void add(i32 first) {
    if (lane >= MT * NT) return;
    const i32 count = runs - first < few_runs ? runs - first : few_runs;
    for (i32 p = 0; 4 * p < count; p++) {
      const Pack<i32, 4> four = sums.sum[lane][p];
#pragma unroll
      for (i32 e = 0; e < 4; e++) {
        const i32 run = 4 * p + e;
        if (run >= count) break;
        sum += four.v[e];
        if (--left > 0 && first + run + 1 < runs) continue;
        y += (f32)sum * (x_scale * sums.scale[lane % NT][run]);
        sum = 0;
        left = group_runs;
      }
    }
  }
  DEVICE void store() {
    const i64 m = m0 + lane / NT, n = n0 + lane % NT;
    if (lane >= MT * NT || m >= a.m || n >= a.n) return;
    if (a.has_bias) y += get_any<f32>(a.bias, n);
    set_any(a.y, m * a.n + n, y);
  }
};

template <i32 MT, i32 NT, i32 BITS>
DEVICE void group_few(const GroupLinearArgs &a, RunSlice<MT> (&slice)[2], RunSums<MT, NT> (&sums)[group_threads / 32]) {
  const i32 warp = threadIdx.x / 32, columns = NT * group_threads / 32;
  const i64 down = (a.m + MT - 1) / MT, across = (a.n + columns - 1) / columns;
  for (i64 tile = blockIdx.x; tile < down * across; tile += gridDim.x) {
    const i64 band = div_(tile, down);
    GroupFew<MT, NT, BITS> few(a, sums[warp], (tile - band * down) * MT, band * columns + warp * NT);
    few.load(0);
    for (i32 first = 0, s = 0; first < few.runs; first += few_runs, s ^= 1) {
      few.put(slice[s]);
      __syncthreads();
      few.multiply(slice[s], first + few_runs);
      __syncwarp();
      few.add(first);
    }
    few.store();
    __syncthreads();
  }
}

// quantized_linear_per_group where codes are compact, groups are whole runs, and rows of x few.
template <i32 MT, i32 NT> DEVICE void group_few(const GroupLinearArgs &a) {
  __shared__ RunSlice<MT> slice[2];
  __shared__ RunSums<MT, NT> sums[group_threads / 32];
  if (a.weight.dtype == s4_ || a.weight.dtype == u4_)
    group_few<MT, NT, 4>(a, slice, sums);
  else
    group_few<MT, NT, 8>(a, slice, sums);
}

KERNEL_FIT(group_linear_row, GroupLinearArgs, 2) { group_few<1, 4>(a); }
KERNEL_FIT(group_linear_four, GroupLinearArgs, 2) { group_few<4, 4>(a); }
KERNEL_FIT(group_linear_few, GroupLinearArgs, 2) { group_few<8, 2>(a); }
