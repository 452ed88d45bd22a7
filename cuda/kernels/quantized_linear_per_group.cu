#include "quantized_linear_per_group.cuh"

const i32 group_tile = 64; // rows and columns of y per block of threads
const i32 group_depth = 16; // words of four codes that a step stages
const i32 group_each = 4; // rows and columns of y per thread

// Words of a row, each with codes of one group, in parts of at most part_words.
struct Parts {
  i64 group, longest; // the next word's group; words of all groups but the last
  i64 offset, words, codes; // where in the group the word is; what the group has
  i32 part_codes; // of the part that the last words were of
  bool ended, last; // whether they were its last ones, and the group's

  DEVICE Parts(const GroupLinearArgs &a) : group(-1), longest((a.group + 3) / 4) { next(a); }
  DEVICE void next(const GroupLinearArgs &a) {
    group++;
    offset = 0;
    codes = a.k - group * a.group;
    if (codes > a.group) codes = a.group;
    words = (codes + 3) / 4;
  }
  // Goes on by words of one part, but at most so many, and returns how many.
  DEVICE i32 move(i32 most) {
    const i64 begin = offset / part_words * part_words, left = words - begin;
    const i64 end = left < part_words ? words : begin + part_words;
    const i32 by = end - offset < most ? (i32)(end - offset) : most;
    offset += by;
    ended = offset == end;
    last = offset == words;
    part_codes = (i32)((4 * end < codes ? 4 * end : codes) - 4 * begin);
    return by;
  }
};

// A word's codes as signed bytes: so many from column k of a row on, and zeros.
DEVICE i32 code_word(const Tensor &t, const CodeKind &codes, i64 row, i64 columns, i64 k, i64 count, i64 pitch,
                     i32 at_once) {
  const bool packed = t.dtype == s4_ || t.dtype == u4_;
  const u8 *line = (const u8 *)t.data + row * pitch;
  if (at_once && packed) {
    const u32 halves = *(const u16 *)(line + k / 2) ^ codes.flip;
    return (i32)__byte_perm(halves & 0x0f0f, halves >> 4 & 0x0f0f, 0x5140);
  }
  if (at_once) return (i32)(*(const u32 *)(line + k) ^ codes.flip);
  u32 word = 0;
  for (i32 j = 0; j < 4 && j < count; j++) {
    const i64 i = row * columns + k + j;
    const i32 code = packed ? packed_code(t, i, columns) : element<u8>(t, i);
    word |= ((u32)(code + codes.shift) & 255) << (8 * j);
  }
  return (i32)word;
}

template <class T> struct GroupStage {
  i32 x[group_depth][group_tile + 1], w[group_depth][group_tile + 1];
  // Of each group that words are of,
  T scale[group_depth][group_tile];
  i32 zero[group_depth][group_tile];
  // and of each part that ends: what exact_sum wants.
  i32 x_sum[group_depth][group_tile], w_sum[group_depth][group_tile];
};

template <class T> struct GroupLinear {
  typedef GroupStage<T> Stage;
  const GroupLinearArgs &a;
  Stage &stage;
  i64 m0, n0, total; // words of a row
  Parts parts;
  i32 line_sum; // of what a thread adds up of its row of x or weight, of the part that has not ended

  DEVICE GroupLinear(const GroupLinearArgs &args, Stage &s, i64 m, i64 n)
      : a(args), stage(s), m0(m), n0(n), parts(args) {
    const i64 whole = a.groups > 0 ? a.groups - 1 : 0;
    total = whole * parts.longest + (a.k - whole * a.group + 3) / 4;
    line_sum = 0;
  }
  // Brings words from one on, and the parameters of their groups.
  DEVICE void load(i64 first) {
    const i32 w = threadIdx.x % group_depth;
    const i64 group = div_(first + w, parts.longest), k = group * a.group + 4 * (first + w - group * parts.longest);
    const i64 stop = (group + 1) * a.group < a.k ? (group + 1) * a.group : a.k;
    for (i32 row = threadIdx.x / group_depth; row < group_tile; row += group_threads / group_depth) {
      i32 x = 0, weight = 0;
      if (k < stop && m0 + row < a.m) x = code_word(a.x, a.x_codes, m0 + row, a.k, k, stop - k, a.x_pitch, a.x_words);
      if (k < stop && n0 + row < a.n)
        weight = code_word(a.weight, a.weight_codes, n0 + row, a.k, k, stop - k, a.weight_pitch, a.weight_words);
      stage.x[w][row] = x;
      stage.w[w][row] = weight;
    }
    const i64 from = parts.group, left = a.groups - from;
    for (i32 e = threadIdx.x; e < group_depth * group_tile; e += group_threads) {
      const i32 g = e / group_tile, column = e % group_tile;
      if (g >= left || (i64)g * parts.longest >= group_depth + parts.longest) break;
      if (n0 + column >= a.n) continue;
      const i64 at = (n0 + column) * a.groups + from + g;
      stage.scale[g][column] = get_any<T>(a.scale, at);
      stage.zero[g][column] = zero_point(a.weight_codes, get_any<T>(a.zero, at));
    }
  }
  // Adds up what was brought, one row or column for each of the first threads.
  DEVICE void sum_lines(i32 words) {
    const i32 line = threadIdx.x % group_tile;
    const bool of_x = threadIdx.x < group_tile;
    if (threadIdx.x >= 2 * group_tile) return;
    Parts at = parts;
    for (i32 w = 0, part = 0, g = 0; w < words;) {
      for (const i32 stop = w + at.move(words - w); w < stop; w++)
        line_sum = dot4(of_x ? stage.x[w][line] : stage.w[w][line], each_one, line_sum);
      if (!at.ended) break;
      if (of_x)
        stage.x_sum[part][line] = line_sum;
      else
        stage.w_sum[part][line] = (i32)((u32)line_sum - (u32)at.part_codes * (u32)stage.zero[g][line]);
      line_sum = 0;
      part++;
      if (!at.last) continue;
      g++;
      at.next(a);
    }
  }
};

// A thread has rows ty, ty + 16, .. and columns tx, tx + 16, .. of a tile.
template <class T> DEVICE void group_linear(const GroupLinearArgs &a) {
  __shared__ GroupStage<T> stage;
  __shared__ T x_scale[group_tile], bias[group_tile];
  __shared__ i32 x_zero[group_tile];
  const i32 tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const i64 across = (a.n + group_tile - 1) / group_tile, down = (a.m + group_tile - 1) / group_tile;
  for (i64 tile = blockIdx.x; tile < across * down; tile += gridDim.x) {
    const i64 m0 = tile / across * group_tile, n0 = tile % across * group_tile;
    if (threadIdx.x < group_tile) {
      const i64 m = m0 + threadIdx.x, n = n0 + threadIdx.x;
      if (m < a.m) x_scale[threadIdx.x] = get_any<T>(a.x_scale, m);
      if (m < a.m) x_zero[threadIdx.x] = zero_point(a.x_codes, get_any<T>(a.x_zero, m));
      if (n < a.n) bias[threadIdx.x] = get_any<T>(a.bias, n);
    }
    GroupLinear<T> l(a, stage, m0, n0);
    T y[group_each][group_each];
    i64 sum[group_each][group_each] = {}; // of the group's parts that have ended
    i32 acc[group_each][group_each] = {};
#pragma unroll
    for (i32 v = 0; v < group_each * group_each; v++) y[v / group_each][v % group_each] = a.groups > 0 ? -(T)0 : (T)0;
    for (i64 word = 0; word < l.total; word += group_depth) {
      const i32 words = l.total - word < group_depth ? (i32)(l.total - word) : group_depth;
      l.load(word);
      __syncthreads();
      l.sum_lines(words);
      __syncthreads();
      for (i32 w = 0, part = 0, g = 0; w < words;) {
        for (const i32 stop = w + l.parts.move(words - w); w < stop; w++) {
#pragma unroll
          for (i32 i = 0; i < group_each; i++) {
            const i32 x = stage.x[w][ty + 16 * i];
#pragma unroll
            for (i32 j = 0; j < group_each; j++) acc[i][j] = dot4(x, stage.w[w][tx + 16 * j], acc[i][j]);
          }
        }
        if (!l.parts.ended) break;
        const bool last = l.parts.last;
#pragma unroll
        for (i32 i = 0; i < group_each; i++) {
          const i32 row = ty + 16 * i, x_sum = stage.x_sum[part][row];
#pragma unroll
          for (i32 j = 0; j < group_each; j++) {
            const i32 column = tx + 16 * j;
            const i32 exact =
                exact_sum(acc[i][j], x_zero[row], x_sum, stage.zero[g][column], stage.w_sum[part][column]);
            acc[i][j] = 0;
            sum[i][j] += exact;
            if (!last) continue;
            const T total = l.parts.words > part_words ? (T)sum[i][j] : (T)exact;
            y[i][j] += total * (x_scale[row] * stage.scale[g][column]);
            sum[i][j] = 0;
          }
        }
        part++;
        if (!last) continue;
        g++;
        l.parts.next(a);
      }
      __syncthreads();
    }
    __syncthreads();
#pragma unroll
    for (i32 i = 0; i < group_each; i++) {
#pragma unroll
      for (i32 j = 0; j < group_each; j++) {
        const i32 row = ty + 16 * i, column = tx + 16 * j;
        if (m0 + row >= a.m || n0 + column >= a.n) continue;
        if (a.has_bias) y[i][j] += bias[column];
        set_any(a.y, (m0 + row) * a.n + n0 + column, y[i][j]);
      }
    }
    __syncthreads();
  }
}

KERNEL(quantized_linear_per_group_f32, GroupLinearArgs) { group_linear<f32>(a); }
KERNEL(quantized_linear_per_group_f64, GroupLinearArgs) { group_linear<f64>(a); }
