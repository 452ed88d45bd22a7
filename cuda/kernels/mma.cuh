// What a thread or a warp of compute capability 8.0 can do beyond older ones.
// Files that include this are named *_sm80.cu and compiled for it.
#pragma once
#include "dtypes.cuh"

#ifndef ISOBIT_SHIM
DEVICE u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

// Starts copying 16 bytes to shared memory, or 4, or zeros where not inside.
template <i32 BYTES = 16> DEVICE void copy_async(void *to, const void *from, bool inside) {
  if constexpr (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(inside ? 16 : 0)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(inside ? 4 : 0)
                 : "memory");
}
// Ends a group of this thread's copies.
DEVICE void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for this thread's copies but those of the last groups.
template <i32 LAST> DEVICE void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(LAST) : "memory"); }

// Four matrices of 8 rows of 16 bytes: lane l says where row l % 8 of matrix
// l / 8 is, and gets bytes 4 * (l % 4).. of row l / 4 of each.
DEVICE void load_matrices(u32 (&r)[4], const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

// c += a * b of signed bytes, a 16 by 32 and b 32 by 8. With g = lane / 4 and
// t = lane % 4: a has rows g, g + 8 at k = 4t.., then at 16 + 4t..; b has
// column g at k = 4t.., 16 + 4t..; c has columns 2t, 2t + 1 of row g, then of
// row g + 8.
DEVICE void multiply_codes(i32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

// What a step has of ROWS rows: CHUNKS chunks of 16 bytes of each. Those of
// eight rows, which are read at once, lie in different banks; rows 16 apart
// are alike.
template <i32 ROWS_, i32 CHUNKS_, i32 THREADS> struct ChunkTile {
  static constexpr i32 CHUNKS = CHUNKS_, ROWS = ROWS_, APART = THREADS / CHUNKS, EACH = (ROWS + APART - 1) / APART;
  typedef Pack<u8, 16> Chunk;
  Chunk chunk[ROWS][CHUNKS];

  DEVICE Chunk *at(i32 row, i32 c) {
    return chunk[row] + (c ^ (i32)((u32)row * (CHUNKS < 8 ? CHUNKS : 8) / 8 % CHUNKS));
  }
};

// What a thread brings of a matrix: one chunk of every APART th row of a tile;
// zeros beyond the matrix. Tiles follow one another along rows, or DOWN.
template <class Tile, bool DOWN = false> struct ChunkSource {
  const u8 *next;
  i64 apart, left; // bytes between rows; rows below this thread's first one, or bytes beside its chunk
  u32 inside; // a bit for each row that exists; of DOWN, whether the chunk does

  // first: the tile's first row, or the byte where it begins.
  DEVICE ChunkSource(const void *data, i64 pitch, i64 first, i64 rows, i64 bytes) {
    const i64 row = threadIdx.x / Tile::CHUNKS + (DOWN ? 0 : first);
    const i64 column = threadIdx.x % Tile::CHUNKS * 16 + (DOWN ? first : 0);
    next = (const u8 *)data + row * pitch + column;
    apart = pitch * Tile::APART;
    left = DOWN ? rows - row : bytes - column;
    inside = DOWN && column < bytes;
#pragma unroll
    for (i32 u = 0; !DOWN && u < Tile::EACH; u++) inside |= (u32)(row + u * Tile::APART < rows) << u;
  }
  DEVICE void copy(Tile &to) {
    const i32 row = threadIdx.x / Tile::CHUNKS, c = threadIdx.x % Tile::CHUNKS;
#pragma unroll
    for (i32 u = 0; u < Tile::EACH; u++) {
      if (Tile::ROWS % Tile::APART != 0 && row + u * Tile::APART >= Tile::ROWS) break;
      bool here = DOWN ? inside && u * Tile::APART < left : left > 0 && (inside >> u & 1);
      copy_async(to.at(row + u * Tile::APART, c), next + u * apart, here);
    }
    next += DOWN ? apart * Tile::EACH : Tile::CHUNKS * 16;
    left -= DOWN ? Tile::APART * Tile::EACH : Tile::CHUNKS * 16;
  }
};
