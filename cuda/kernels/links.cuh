// The gradient of grid_sample's input, of images, where pixels have few
// contributions: the positions in a cell are linked, and a thread that has some
// pixels walks the links of the cells around them, puts what it finds in the
// order of positions, and adds, which up to 256 is Chunk order (NUMERICS.md,
// section 4). Pixels that have more mark their tile (tiles.cuh).
#pragma once
#include "chunk.cuh"
#include "tile_lists.cuh"

// A place so many bytes behind another, which the compiler does not make anew
// wherever it is used.
template <class P> DEVICE const P *behind(const void *start, i64 bytes) {
#ifndef ISOBIT_SHIM
  asm("" : "+l"(bytes));
#endif
  return (const P *)((const char *)start + bytes);
}

// Links all positions.
template <class T, bool SECOND> DEVICE void link_positions(const TileArgs &a) {
  const Sampler &s = a.sampler;
  const i32 rim = s.mode == nearest ? 0 : 1;
  each_position<2>(s, 1, [&](const Position<2> &p, bool here, i64) {
    T grid[2], tangent[2];
    load_grid<i64>(s, s.grid, p, grid);
    if constexpr (SECOND) load_grid<i64>(s, a.tangent, p, tangent);
    Spot<T, SECOND> spot;
    i32 pixel[2];
#pragma unroll
    for (i32 d = 0; d < 2; d++) {
      const T size = (T)(i32)s.size[d];
      const Coordinate<T> x = pad<T>(s, unpadded<T>(s, grid[d], size), size);
      pixel[d] = pixel_at((s.mode == nearest ? rint_(x.c) : floor_(x.c)) + (T)rim, s.size[d] + rim) - rim;
      here = here && pixel[d] >= -rim;
      spot.v[d] = x.c;
      if constexpr (SECOND) spot.v[2 + d] = x.k == 0 && s.padding != zeros ? (T)0 : tangent[d] * x.k;
    }
    link<T, SECOND>(a.links, p, here, pixel[0], pixel[1], spot);
  });
}

// A thread's pixels, how many patches a row of a block has, as a logarithm, and
// whether a position reaches two pixels along an axis or one (nearest).
template <i32 WIDTH, i32 HEIGHT, i32 LOG, bool FAR> struct Patch {
  static constexpr i32 width = WIDTH, height = HEIGHT, log = LOG, rim = FAR ? 1 : 0;
  static constexpr i32 columns = WIDTH + rim, cells = columns * (HEIGHT + rim);
};
const i32 gather_threads = 128;

// How a position in one of the cells around N pixels weighs on each along an axis.
template <class T, i32 N, bool FAR> struct Reach {
  T weight[N];
  bool near[N], here[N]; // whether its near pixel; whether one at all

  DEVICE Reach(T c, T first) {
    const T base = FAR ? floor_(c) : rint_(c), at = base - first; // -1 to N - 1
    bool beyond[N]; // whether it is behind a pixel's far side
#pragma unroll
    for (i32 i = 0; i < N; i++) beyond[i] = at >= (T)i;
#pragma unroll
    for (i32 i = 0; i < N; i++) {
      near[i] = beyond[i];
      here[i] = FAR ? (i == 0 || beyond[i - 1]) && (i == N - 1 || !beyond[i + 1]) : N == 1 || at == (T)i;
      weight[i] = FAR ? near[i] ? (base + 1) - c : c - base : (T)1;
    }
  }
};

// The sums of N channels of a patch's pixels. KEYS: how many runs there may be.
template <class S, bool SECOND, i32 N, class P, i32 KEYS> struct Gather {
  typedef typename Compute<S>::type T;
  static_assert(KEYS * run_length <= chunk_terms && KEYS >= P::cells, "");
  static constexpr u32 step = gather_threads, end = (1 + KEYS) * step;
  const TileArgs &a;
  u32 *keys; // those of a thread lie a step apart, behind a 0
  const u32 left, top;
  u32 stop; // of the keys
  T sum[P::height][P::width][N];

  DEVICE Gather(const TileArgs &args, u32 *shared, u32 x, u32 y) : a(args), keys(shared), left(x), top(y) {}

  // Finds the keys; false: there are too many.
  DEVICE bool find(const u32 *heads, const char *links) {
    const i32 columns = P::columns, together = P::width > 1 ? P::width : 1; // heads of a row, and of a load
    u32 head[P::cells], second[P::cells];
    const u32 *row = heads + (i64)(i32)((top + 1 - P::rim) * (u32)a.links.pitch + left + 1 - P::rim);
#pragma unroll
    for (i32 y = 0; y < P::cells / columns; y++, row += a.links.pitch) {
      const Pack<u32, together> pack = *(const Pack<u32, together> *)row;
#pragma unroll
      for (i32 x = 0; x < columns; x++) head[y * columns + x] = x < together ? pack.v[x] : row[x];
    }
#pragma unroll
    for (i32 i = 0; i < P::cells; i++) second[i] = head[i] == 0 ? 0 : next(links, head[i] - 1);
    keys[threadIdx.x] = 0;
    stop = threadIdx.x + step;
#pragma unroll
    for (i32 i = 0; i < P::cells; i++) { // the front of a list tends to be its last position
      for (u32 link = second[i]; link != 0;) {
        if (stop >= end - (P::cells - i) * step) return false;
        const u32 key = link - 1;
        link = next(links, key);
        keys[stop] = key;
        stop += step;
      }
      keys[stop] = head[i] - 1;
      if (head[i] != 0) stop += step;
    }
    return true;
  }
  static DEVICE u32 next(const char *links, u32 key) { return *(const u32 *)(links + (key & ~(run_length - 1))); }
  // Puts keys in order: they nearly are.
  DEVICE void order() {
#pragma unroll 1
    for (u32 i = threadIdx.x + 2 * step; i < stop; i += step) {
      const u32 key = keys[i];
      u32 to = i;
#pragma unroll 1
      for (u32 before; (before = keys[to - step]) > key; to -= step) keys[to] = before;
      keys[to] = key;
    }
  }
  // Adds the terms of all positions. spots are of the image, dy of channels.
  DEVICE void add(const Spot<T, SECOND> *spots, const char *const (&dy)[N]) {
    const Sampler &s = a.sampler;
    const u32 row = (u32)s.output.axis[1] * sizeof(S), column = (u32)s.output.axis[0] * sizeof(S);
    const T x0 = (T)(i32)left, y0 = (T)(i32)top;
    u32 next = threadIdx.x + step, key = 0;
    for (;;) {
      if (key & (run_length - 1)) {
        key += run_length - 1; // the next position, and one less that follows
      } else {
        if (next == stop) break;
        key = keys[next];
        next += step;
      }
      const u32 source = key >> run_bits;
      const Spot<T, SECOND> spot = spots[source];
      const u32 at = (source >> a.links.log_row) * row + (source & ((1u << a.links.log_row) - 1)) * column;
      T v[N];
#pragma unroll
      for (i32 j = 0; j < N; j++) v[j] = widen<T>(*(const S *)(dy[j] + at));
      const Reach<T, P::width, P::rim == 1> x(spot.v[0], x0);
      const Reach<T, P::height, P::rim == 1> y(spot.v[1], y0);
#pragma unroll
      for (i32 h = 0; h < P::height; h++) {
#pragma unroll
        for (i32 w = 0; w < P::width; w++) {
          T weight = x.weight[w] * y.weight[h];
          if constexpr (SECOND) {
            weight = 0;
            weight += (x.near[w] ? -y.weight[h] : y.weight[h]) * spot.v[2];
            weight += (y.near[h] ? -x.weight[w] : x.weight[w]) * spot.v[3];
          }
          if (!x.here[w] || !y.here[h]) continue;
#pragma unroll
          for (i32 j = 0; j < N; j++) sum[h][w][j] += v[j] * weight;
        }
      }
    }
  }
  // out is of the image, at a channel.
  DEVICE void store(S *out, u32 channels) const {
    const u32 width = (u32)a.sampler.size[0] - left, height = (u32)a.sampler.size[1] - top; // that are left
#pragma unroll
    for (i32 h = 0; h < P::height; h++) {
      if ((u32)h >= height) break;
      S *const row = out + (top + h) * a.out.axis[1] + left * a.out.axis[0];
#pragma unroll
      for (i32 j = 0; j < N; j++) {
        if ((u32)j >= channels) break;
        Pack<S, P::width> pack;
#pragma unroll
        for (i32 w = 0; w < P::width; w++) pack.v[w] = Narrow<S>::from(sum[h][w][j]);
        if (a.packs && width >= P::width) {
          *(Pack<S, P::width> *)(row + j * a.out.channel) = pack;
          continue;
        }
#pragma unroll
        for (i32 w = 0; w < P::width; w++) {
          if ((u32)w < width) row[j * a.out.channel + w * a.out.axis[0]] = pack.v[w];
        }
      }
    }
  }
  // Channels [from, to) of an image.
  DEVICE void gradient(u32 image, u32 from, u32 to) {
    const Sampler &s = a.sampler;
    if (!find(a.links.heads + image * a.links.cells, behind<char>(a.links.next, image * a.links.sources * 4))) {
      a.heavy[image * a.tiles + (top >> log_height) * a.columns + (left >> log_width)] = 1;
      a.heavy[s.images * a.tiles] = 1;
      return;
    }
    order();
    const i64 size = sizeof(Spot<T, SECOND>);
    const auto *spots = behind<Spot<T, SECOND>>(a.links.spots, image * a.links.sources * size);
    for (u32 c = from; c < to; c += N) {
      const char *dy[N]; // those beyond the last one are not stored
#pragma unroll
      for (i32 j = 0; j < N; j++)
        dy[j] = behind<char>(s.output.data,
                             (image * s.output.image + (c + j < to ? c + j : c) * s.output.channel) * (i64)sizeof(S));
#pragma unroll
      for (i32 h = 0; h < P::height; h++) {
#pragma unroll
        for (i32 w = 0; w < P::width; w++) {
#pragma unroll
          for (i32 j = 0; j < N; j++) sum[h][w][j] = 0;
        }
      }
      add(spots, dy);
      store((S *)a.out.data + image * a.out.image + c * a.out.channel, to - c);
    }
  }
};

template <class S, bool SECOND, i32 N, class P, i32 KEYS> DEVICE void gather(const TileArgs &a, u32 *shared) {
  const Sampler &s = a.sampler;
  const u32 x = threadIdx.x & ((1u << P::log) - 1), y = threadIdx.x >> P::log, rows = gather_threads >> P::log;
  const u32 left = (blockIdx.x << P::log | x) * P::width;
  if (left >= (u32)s.size[0]) return;
  // Blocks of one place share its channels.
  const u32 group = blockIdx.y & ((1u << a.log_groups) - 1), from = group * a.channels;
  const u32 to = from + a.channels < (u32)s.channels ? from + a.channels : (u32)s.channels;
  for (u32 image = blockIdx.z; image < (u32)s.images; image += gridDim.z) {
    for (u32 block = blockIdx.y >> a.log_groups;; block += gridDim.y >> a.log_groups) {
      const u32 top = (block * rows + y) * P::height;
      if (top >= (u32)s.size[1]) break;
      Gather<S, SECOND, N, P, KEYS>(a, shared, left, top).gradient(image, from, to);
    }
  }
}
