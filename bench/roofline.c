/* What this machine's memory allows, for bench/roofline.py: copy with
 * non-temporal stores, read, and non-temporal fill, over part of an array. */
#include <immintrin.h>
#include <stddef.h>

void copy(char *to, const char *from, size_t n) {
  for (size_t i = 0; i + 64 <= n; i += 64)
    for (size_t k = 0; k < 64; k += 16)
      _mm_stream_ps((float *)(to + i + k), _mm_load_ps((const float *)(from + i + k)));
  _mm_sfence();
}

void fill(char *to, const char *unused, size_t n) {
  (void)unused;
  const __m128 value = _mm_set1_ps(1);
  for (size_t i = 0; i + 16 <= n; i += 16) _mm_stream_ps((float *)(to + i), value);
  _mm_sfence();
}

void read(char *to, const char *from, size_t n) {
  __m128 sum[8] = {0};
  for (size_t i = 0; i + 128 <= n; i += 128)
    for (size_t k = 0; k < 8; k++) sum[k] = _mm_add_ps(sum[k], _mm_load_ps((const float *)(from + i + 16 * k)));
  for (size_t k = 1; k < 8; k++) sum[0] = _mm_add_ps(sum[0], sum[k]);
  _mm_storeu_ps((float *)to, sum[0]); /* so that it is not left out */
}
