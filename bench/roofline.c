/* What this machine's memory allows (bench/measure.py): loops that read so many
 * cache lines and write so many around the caches, over and over, on threads.
 * What must be known of a whole row first is read twice, the second time from
 * the caches, while the next row is asked for. */
#include <immintrin.h>
#include <pthread.h>
#include <stddef.h>

enum { LINE = 64, MAX_THREADS = 64 };

typedef struct {
  char *to;
  const char *from;
  size_t steps;
  int reads, writes; /* lines in each step */
  size_t row; /* steps that are read twice, or 0 */
} part;

/* Reads lines and nothing else. */
__attribute__((target("avx2"))) static __m256i look(const char *from, size_t lines) {
  __m256i low = _mm256_setzero_si256(), high = low;
  for (size_t i = 0; i < lines; i++, from += LINE) {
    low = _mm256_xor_si256(low, _mm256_loadu_si256((const __m256i *)from));
    high = _mm256_xor_si256(high, _mm256_loadu_si256((const __m256i *)from + 1));
  }
  return _mm256_xor_si256(low, high);
}

__attribute__((target("avx2"))) static void *move(void *p) {
  const part *a = p;
  char *to = a->to;
  const char *from = a->from;
  /* What is stored differs from line to line: equal lines are stored faster. */
  const __m256i step = _mm256_set1_epi64x((long long)0x9E3779B97F4A7C15);
  __m256i low = step, high = _mm256_slli_epi64(step, 1);
  for (size_t i = 0, row = 0; i < a->steps; i++, row--) {
    if (a->row && !row) {
      row = a->steps - i < a->row ? a->steps - i : a->row;
      low = _mm256_xor_si256(low, look(from, row * (size_t)a->reads));
    }
    for (int r = 0; r < a->reads; r++, from += LINE) {
      if (a->row) _mm_prefetch(from + a->row * (size_t)a->reads * LINE, _MM_HINT_T1);
      low = _mm256_xor_si256(low, _mm256_loadu_si256((const __m256i *)from));
      high = _mm256_xor_si256(high, _mm256_loadu_si256((const __m256i *)from + 1));
    }
    for (int w = 0; w < a->writes; w++, to += LINE) {
      low = _mm256_add_epi64(low, step);
      high = _mm256_add_epi64(high, low);
      _mm256_stream_si256((__m256i *)to, low);
      _mm256_stream_si256((__m256i *)to + 1, high);
    }
  }
  _mm_sfence();
  if (!a->writes) /* so that what was read is not left out */
    _mm256_storeu_si256((__m256i *)to, _mm256_xor_si256(low, high));
  return NULL;
}

enum { VNNI_SUMS = 12, AVX2_SUMS = 8 }; /* enough to hide how long one takes, in registers */

__attribute__((target("avx512f,avx512vnni"))) static void *multiply_vnni(void *p) {
  part *a = p;
  __m512i sum[VNNI_SUMS], x = _mm512_set1_epi8(1), y = _mm512_set1_epi8(2);
  for (int k = 0; k < VNNI_SUMS; k++) sum[k] = _mm512_setzero_si512();
  for (size_t i = 0; i < a->steps; i++) {
    for (int k = 0; k < VNNI_SUMS; k++) sum[k] = _mm512_dpbusd_epi32(sum[k], x, y);
    __asm__ volatile("" : "+v"(x), "+v"(y));
  }
  for (int k = 1; k < VNNI_SUMS; k++) sum[0] = _mm512_add_epi32(sum[0], sum[k]);
  a->reads = _mm512_reduce_add_epi32(sum[0]);
  return NULL;
}

/* Bytes that were widened to 16 bits beforehand: of bytes themselves AVX2's
 * products do not always fit, pairs of which it adds in 16 bits. */
__attribute__((target("avx2"))) static void *multiply_avx2(void *p) {
  part *a = p;
  __m256i sum[AVX2_SUMS], x = _mm256_set1_epi16(1), y = _mm256_set1_epi16(2);
  for (int k = 0; k < AVX2_SUMS; k++) sum[k] = _mm256_setzero_si256();
  for (size_t i = 0; i < a->steps; i++) {
#pragma GCC unroll 8
    for (int k = 0; k < AVX2_SUMS; k++) {
      __asm__ volatile("" : "+x"(x)); /* else there would be one product for all */
      sum[k] = _mm256_add_epi32(sum[k], _mm256_madd_epi16(x, y));
    }
  }
  for (int k = 1; k < AVX2_SUMS; k++) sum[0] = _mm256_add_epi32(sum[0], sum[k]);
  _mm256_storeu_si256((__m256i *)a->to, sum[0]);
  return NULL;
}

/* Names the instructions whose products of bytes are counted, or none: VNNI's,
 * or AVX2's VPMADDWD. */
const char *multiplier(void) {
  if (__builtin_cpu_supports("avx512vnni")) return "VNNI";
  if (__builtin_cpu_supports("avx2")) return "AVX2";
  return "";
}

/* Returns how many multiplications of bytes threads made, whose products were
 * added to sums of 32 bits. */
double multiplications(size_t steps, int threads) {
  int vnni = __builtin_cpu_supports("avx512vnni") != 0;
  if (!vnni && !__builtin_cpu_supports("avx2")) return 0;
  void *(*multiply)(void *) = vnni ? multiply_vnni : multiply_avx2;
  part parts[MAX_THREADS];
  char sums[MAX_THREADS][32];
  pthread_t started[MAX_THREADS];
  for (int i = 0; i < threads; i++) {
    parts[i] = (part){.to = sums[i], .steps = steps};
    if (i > 0) pthread_create(&started[i], NULL, multiply, &parts[i]);
  }
  multiply(&parts[0]);
  for (int i = 1; i < threads; i++) pthread_join(started[i], NULL);
  return (vnni ? VNNI_SUMS * 64. : AVX2_SUMS * 16.) * (double)steps * threads;
}

/* Takes steps in all, of reads lines from one place and writes lines to another,
 * and reads those of row steps twice, if there are any. */
void run(char *to, const char *from, size_t steps, int reads, int writes, size_t row, int threads) {
  part parts[MAX_THREADS];
  pthread_t started[MAX_THREADS];
  size_t each = steps / (size_t)threads;
  for (int i = 0; i < threads; i++) {
    parts[i] = (part){to + (size_t)i * each * (size_t)writes * LINE,
                      from + (size_t)i * each * (size_t)reads * LINE,
                      each,
                      reads,
                      writes,
                      row};
    if (i > 0) pthread_create(&started[i], NULL, move, &parts[i]);
  }
  move(&parts[0]);
  for (int i = 1; i < threads; i++) pthread_join(started[i], NULL);
}
