// The 8-bit floats f8e4m3 (no infinities) and f8e5m2, with integers: no
// hardware is needed, and one rounding is one rounding.
#pragma once

// Explicit bits, exponent of the smallest normal, and the largest finite value,
// beyond which everything rounds to that.
enum { no_float8, e4m3, e5m2 };
DEVICE i32 float8_mantissa(i32 kind) { return kind == e4m3 ? 3 : 2; }
DEVICE i32 float8_least(i32 kind) { return kind == e4m3 ? -6 : -14; }
DEVICE f32 float8_most(i32 kind) { return kind == e4m3 ? 448 : 57344; }

DEVICE i32 exponent_of(f32 x) { return (i32)(bits_of(x) >> 23 & 255) - 127; }
DEVICE i32 exponent_of(f64 x) { return (i32)(bits_of(x) >> 52 & 2047) - 1023; }
DEVICE f32 power_of_two(i32 e, f32) { return from_bits((u32)(e + 127) << 23); }
DEVICE f64 power_of_two(i32 e, f64) { return from_bits((u64)(e + 1023) << 52); }

// Rounds to the nearest value of an 8-bit float, ties to even; a NaN stays.
template <class T> DEVICE T round_float8(T v, i32 kind) {
  if (v != v || v == 0) return v;
  i32 e = exponent_of(v), least = float8_least(kind);
  e = (e < least ? least : e) - float8_mantissa(kind);
  T r = abs_(rint_(v * power_of_two(-e, v))) * power_of_two(e, v), most = float8_most(kind);
  r = r < most ? r : most;
  return v < 0 ? -r : r;
}

// The bits of a value that round_float8 has made, and back.
DEVICE u8 encode_float8(f32 v, i32 kind) {
  if (v != v) return kind == e4m3 ? 0x7f : 0x7e;
  u32 b = bits_of(v), sign = b >> 24 & 0x80;
  i32 m = float8_mantissa(kind), e = exponent_of(v), least = float8_least(kind);
  if (e < least) return (u8)(sign | (u32)(abs_(v) * power_of_two(m - least, v)));
  return (u8)(sign | (u32)(e - least + 1) << m | (b & 0x7fffff) >> (23 - m));
}
DEVICE f32 decode_float8(u8 b, i32 kind) {
  i32 m = float8_mantissa(kind), least = float8_least(kind), e = (b & 0x7f) >> m;
  u32 fraction = b & ((1u << m) - 1), sign = (u32)(b & 0x80) << 24;
  if (kind == e4m3 ? (b & 0x7f) == 0x7f : (b & 0x7f) > 0x7c) return from_bits((u32)0x7fc00000);
  if (kind == e5m2 && (b & 0x7f) == 0x7c) return from_bits(sign | 0x7f800000);
  if (e == 0) return from_bits(sign | bits_of((f32)fraction * power_of_two(least - m, 0.0f)));
  return from_bits(sign | (u32)(e + least - 1 + 127) << 23 | fraction << (23 - m));
}
