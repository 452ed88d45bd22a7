// Lists of the positions in each cell of an image, linked in whatever order
// (links.cuh draws from them).
#pragma once
#include "sampler.cuh"

// A link is 0, or 1 + a key, which is a run of neighbours in a cell: the first
// one's source << run_bits | how many follow it. A position's source is its
// y << log_row | x.
const u32 run_bits = 2, run_length = 1 << run_bits;

// Cells are numbered with a rim of one before pixel 0, where a far tap may be inside.
struct Links {
  u32 *heads, *next; // [images][cells], 0 at first; [images][sources]
  void *spots; // [images][sources]
  i64 cells, sources;
  i32 pitch, log_row; // pitch: from a row of cells to the next one
};

// Where a position is: its padded coordinates, then, of the second order, the
// tangents of these in pixels.
template <class T, bool SECOND> using Spot = Pack<T, SECOND ? 4 : 2>;

// Puts a warp's positions at the front of the lists of their cells. here: whether
// this thread has one with a tap inside; x, y: its near pixel.
template <class T, bool SECOND>
DEVICE void link(const Links &l, const Position<2> &p, bool here, i32 x, i32 y, const Spot<T, SECOND> &spot) {
  const u32 lane = threadIdx.x % 32, whole = 0xffffffffu, source = p.at[1] << l.log_row | p.at[0];
  const u32 cell = here ? (u32)((y + 1) * l.pitch + (x + 1)) : whole;
  const u32 before = __shfl_up_sync(whole, cell, 1), neighbour = __shfl_up_sync(whole, source, 1);
  const bool first = lane % run_length == 0 || cell != before || source != neighbour + 1;
  const u32 behind = __ballot_sync(whole, first) >> lane >> 1, follow = behind ? __ffs(behind) - 1 : 31 - lane;
  if (!here) return;
  const i64 to = p.image * l.sources + source;
  ((Spot<T, SECOND> *)l.spots)[to] = spot;
  if (first) l.next[to] = atomicExch(l.heads + p.image * l.cells + cell, (source << run_bits | follow) + 1);
}

// link for a position of which taps are known (FlatTaps).
template <class Taps> DEVICE void link_taps(const Links &l, const Taps &taps, const Position<2> &p, bool here) {
  typedef typename Taps::T T;
  const auto &cell = taps.place;
  Spot<T, false> spot;
#pragma unroll
  for (i32 d = 0; d < 2; d++) // the coordinate: these sums are exact
    spot.v[d] = cell.at[d] < 0 ? -cell.s[d] : (T)cell.at[d] + cell.t[d];
  link<T, false>(l, p, here && taps.any, cell.at[0], cell.at[1], spot);
}
