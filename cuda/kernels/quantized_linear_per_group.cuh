// What the kernels of quantized_linear_per_group share (NUMERICS.md, section 7).
#pragma once
#include "weights.cuh"

// Codes as signed bytes, of whatever type: each is the number that it stands for, plus shift.
// Zero points, between lo and hi, are shifted with them, so that differences stay what they are.
struct CodeKind {
  i32 lo, hi, shift;
  u32 flip; // which bits of a word of codes make them so
};

struct GroupLinearArgs {
  i64 m, n, k;
  i64 group, groups; // codes that share a scale; groups of a row of weight
  Tensor x, x_scale, x_zero, weight, scale, zero, bias, y; // x [m, k], weight [n, k], scale and zero [n, groups]
  CodeKind x_codes, weight_codes;
  i64 x_pitch, weight_pitch; // bytes between rows, where several codes are loaded at once
  i32 x_words, weight_words; // four of a group can be
  i32 has_bias;
  Ratio runs_of; // of 32 codes, a group
};

const i32 group_threads = 256;
const i32 part_words = 8192; // of four codes: products of so many differences sum up within 32 bits
const i32 each_one = 0x01010101; // dot4 with it adds a word's codes

template <class T> DEVICE i32 zero_point(const CodeKind &codes, T z) {
  return (i32)round_zero(z, (T)codes.lo, (T)codes.hi) + codes.shift;
}

// The sum of (x - x_zero) * (w - w_zero) over at most 4 * part_words positions: dot is that of x * w,
// x_sum that of x, and w_sum that of w - w_zero.
DEVICE i32 exact_sum(i32 dot, i32 x_zero, i32 x_sum, i32 w_zero, i32 w_sum) {
  return (i32)((u32)dot - (u32)w_zero * (u32)x_sum - (u32)x_zero * (u32)w_sum);
}
