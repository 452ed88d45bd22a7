// Ops that map every element of a quantize problem on its own.
#pragma once
#include "quant_quick.cuh"

// How many elements move at once: 16 bytes of the widest type, so that
// neighbouring threads' accesses, vectors, are neighbours in memory.
template <class A, class B, class S> struct PackSize {
  static constexpr i32 wide = sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B);
  static constexpr i32 value = 16 / (wide > sizeof(S) ? wide : sizeof(S));
};

// How packs of elements are shared out that come in runs of one parameter. A warp does a
// tile at a time: up to tile_packs packs of a long run, or several short runs side by side.
// Each run has 1 << log_lanes of its lanes, or all lanes have packs of any of side runs.
struct Tiles {
  i64 size, packs, run, row; // elements of a pack, 1 where they move one by one; packs: of all, of a run, of a row of
                             // q.groups runs, the last of which may be shorter
  u32 tiles, runs, side;
  i32 log_lanes, scale_step, zero_step; // steps: elements from a parameter to the next
  Ratio pieces, params, groups, packs_of; // tiles of a run; parameters; runs of a row; packs of a run
};
const i32 log_warp = 5, warp = 1 << log_warp, tile_each = 4, tile_packs = warp * tile_each;

// The parameters of a run.
template <class P> DEVICE void load_run(P &p, const Quant &q, const Tiles &t, u32 number) {
  i64 c = number - t.params.of(number) * t.params.by;
  p.load_at(q, c * t.scale_step, c * t.zero_step);
}

// each_pack of side runs, of which each lane has the parameters of one, which it lends.
template <class P, class Load, class Quickly, class Run>
DEVICE void each_pack_aside(const Quant &q, const Tiles &t, u32 tile, Load load, Quickly quickly, Run run) {
  const u32 lane = threadIdx.x % warp, all = 0xffffffff;
  const u32 number = tile * t.side, runs = t.runs - number < t.side ? t.runs - number : t.side;
  const i64 first = number * t.run + lane;
  const i32 left = (i32)(runs * (u32)t.run) - (i32)lane;
  decltype(load(first, 0)) in[tile_each];
#pragma unroll
  for (i32 e = 0; e < tile_each; e++) {
    if (e * warp < left) in[e] = load(first, e * warp);
  }
  P own;
  load_run(own, q, t, number + (lane < runs ? lane : 0));
  if (!__any_sync(all, !own.quick)) {
#pragma unroll
    for (i32 e = 0; e < tile_each; e++) {
      P p = own.lent(t.packs_of.of(e * warp + lane));
      if (e * warp < left) quickly(p, in[e], first, e * warp);
    }
  } else {
#pragma unroll 1
    for (i32 e = 0; e < tile_each; e++) {
      P p = own.lent(t.packs_of.of(e * warp + lane));
      if (e * warp < left) run(p, first + e * warp);
    }
  }
}

// Calls quickly(parameters, load(first, i), first, i) for every pack first + i, or run where
// the parameters, a P, are not quick. There is a warp for each tile; a thread loads EACH
// packs before it uses any. ASIDE: the tiles may be each_pack_aside's.
template <class P, i32 EACH, bool ASIDE, class Load, class Quickly, class Run>
DEVICE void each_pack(const Quant &q, const Tiles &t, Load load, Quickly quickly, Run run) {
  const u32 tile = (u32)(thread_number() / warp), lane = threadIdx.x % warp;
  const i32 lanes = 1 << t.log_lanes;
  if (tile >= t.tiles) return;
  if constexpr (ASIDE) {
    if (t.side) return each_pack_aside<P>(q, t, tile, load, quickly, run);
  }
  u32 piece = t.pieces.of(tile), number = (piece << (log_warp - t.log_lanes)) + (lane >> t.log_lanes);
  if (number >= t.runs) return;
  i64 at = (i64)(tile - piece * t.pieces.by) * tile_packs + (lane & (lanes - 1)), first = number * t.run + at;
  i64 rest = t.run - at;
  if (q.groups > 1) {
    u32 row = t.groups.of(number);
    i64 before = (number - row * t.groups.by) * t.run;
    first = row * t.row + before + at;
    rest = before + t.run > t.row ? t.row - before - at : rest;
  }
  const i32 left = rest < tile_packs ? (i32)rest : tile_packs;
  P p;
#pragma unroll 1
  for (i32 j = 0; j < tile_each; j += EACH) {
    decltype(load(first, 0)) in[EACH];
#pragma unroll
    for (i32 e = 0; e < EACH; e++) {
      if ((j + e) * lanes < left) in[e] = load(first, (j + e) * lanes);
    }
    if (j == 0) load_run(p, q, t, number);
    if (p.quick) {
#pragma unroll
      for (i32 e = 0; e < EACH; e++) {
        if ((j + e) * lanes < left) quickly(p, in[e], first, (j + e) * lanes);
      }
    } else { // it loads them again, so that this is code for one
#pragma unroll 1
      for (i32 e = j; e < j + EACH && e * lanes < left; e++) run(p, first + e * lanes);
    }
  }
}

// Calls run(parameters, k) for every pack k, whatever the parameters are.
template <class P, class Run> DEVICE void each_pack_slowly(const Quant &q, const Tiles &t, Run run) {
  each_pack<P, 1, false>(
      q, t, [](i64, i32) { return 0; }, [&](const P &p, i32, i64 first, i32 i) { run(p, first + i); }, run);
}

struct MapArgs {
  Quant q;
  Tensor in, x, out; // in: x, codes or grad_output; x: of a backward
  Tiles tiles;
};

// Holds<A, T>::type is what Op takes elements of type A in: T, unless it does not
// hold them all.
template <class A, class T> struct Holds {
  typedef T type;
};
template <> struct Holds<i32, f32> {
  typedef f64 type;
};

// What each_pack loads for a backward.
template <class A, class B, i32 V> struct Two {
  Words<A, V> in;
  Words<B, V> x;
};

// out[i] = Op::run(in[i], u, parameters of i) with u = x[i] / s where Op divides. A, B, S are
// the storage types of in, x and out; x is in unless Op is a backward.
template <class A, class B, class S, class T, class Op>
DEVICE S map_one(const MapArgs &a, const Param<T> &p, A in, B x) {
  typedef typename Holds<A, T>::type H;
  T v = Op::backward ? widen<T>(x) : (T)widen<H>(in);
  return Narrow<S>::from(Op::run(widen<H>(in), Op::divides ? p.divide(a.q.reciprocal, v) : v, p));
}

// Runs Op over packs, with Op::quickly where it has that.
template <class A, class B, class S, class T, class Op> DEVICE void map_packs(const MapArgs &a) {
  typedef typename Op::template Params<A, T> P;
  const i32 V = PackSize<A, B, S>::value;
  constexpr bool quick = Op::template quick<A, T> && sizeof(A) <= 4 && sizeof(S) <= 4;
  auto run = [&](const P &p, i64 k) {
    Pack<A, V> in = ((const Pack<A, V> *)a.in.data)[k];
    Pack<B, V> x;
    Pack<S, V> out;
    if (Op::backward) x = ((const Pack<B, V> *)a.x.data)[k];
#pragma unroll
    for (i32 j = 0; j < V; j++) out.v[j] = map_one<A, B, S, T, Op>(a, p, in.v[j], x.v[j]);
    ((Pack<S, V> *)a.out.data)[k] = out;
  };
  if constexpr (!quick) {
    each_pack_slowly<P>(a.q, a.tiles, run);
  } else if constexpr (Op::backward) {
    each_pack<P, tile_each / 2, false>(
        a.q, a.tiles,
        [&](i64 first, i32 i) {
          Two<A, B, V> two = {(&words_at<A, V>(a.in, first))[i], (&words_at<B, V>(a.x, first))[i]};
          return two;
        },
        [&](const P &p, const Two<A, B, V> &two, i64 first, i32 i) {
          (&words_at<S, V>(a.out, first))[i] = Op::template quickly<S>(p, two.in, two.x);
        },
        run);
  } else {
    each_pack<P, tile_each, true>(
        a.q, a.tiles, [&](i64 first, i32 i) { return (&words_at<A, V>(a.in, first))[i]; },
        [&](const P &p, const Words<A, V> &in, i64 first, i32 i) {
          (&words_at<S, V>(a.out, first))[i] = Op::template quickly<S>(p, in);
        },
        run);
  }
}

template <class A, class B> struct Single {
  A in;
  B x;
};

// An element of a tensor of one stride.
template <class S> DEVICE S &strided(const Tensor &t, i64 i) { return ((S *)t.data)[t.rank ? i * t.stride[0] : i]; }

// Runs Op over elements one by one, in tiles as packs are.
template <class A, class B, class S, class T, class Op> DEVICE void map_singles(const MapArgs &a) {
  each_pack<Plain<T>, tile_each, false>(
      a.q, a.tiles,
      [&](i64 first, i32 i) {
        Single<A, B> one;
        one.in = strided<A>(a.in, first + i);
        if (Op::backward) one.x = strided<B>(a.x, first + i);
        return one;
      },
      [&](const Plain<T> &p, const Single<A, B> &one, i64 first, i32 i) {
        strided<S>(a.out, first + i) = map_one<A, B, S, T, Op>(a, p, one.in, one.x);
      },
      [](const Plain<T> &, i64) {});
}

// Runs Op over what is in no tile.
template <class A, class B, class S, class T, class Op> DEVICE void map_rest(const MapArgs &a) {
#pragma unroll 1
  for (i64 i = a.tiles.packs * a.tiles.size + thread_number(); i < a.q.n; i += thread_count()) {
    B x;
    if (Op::backward) x = element<B>(a.x, i);
    Param<T> p;
    p.load(a.q, param_of(a.q, i));
    element<S>(a.out, i) = map_one<A, B, S, T, Op>(a, p, element<A>(a.in, i), x);
  }
}

template <class A, class B, class S, class T, class Op> DEVICE void map(const MapArgs &a) {
  if (a.tiles.size == 1)
    map_singles<A, B, S, T, Op>(a);
  else
    map_packs<A, B, S, T, Op>(a);
  map_rest<A, B, S, T, Op>(a);
}

// The same for an Op that depends on which codes there are; run asks the parameters.
template <class A, class B, class S, class T, template <i32> class Op> DEVICE void map_kinds(const MapArgs &a) {
  if (a.tiles.size == 1)
    map_singles<A, B, S, T, Op<no_float8>>(a);
  else if (a.q.float8 == no_float8)
    map_packs<A, B, S, T, Op<no_float8>>(a);
  else if (a.q.float8 == e4m3)
    map_packs<A, B, S, T, Op<e4m3>>(a);
  else
    map_packs<A, B, S, T, Op<e5m2>>(a);
  map_rest<A, B, S, T, Op<no_float8>>(a);
}
