/* What the C tests share: checks, and tensors filled from numbers. */
#ifndef ISOBIT_TESTING_H_
#define ISOBIT_TESTING_H_

#include <isobit.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program with a line that says where. */
#define CHECK(condition, ...)                                         \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
      fprintf(stderr, __VA_ARGS__);                                   \
      fputc('\n', stderr);                                            \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

/* A call that must succeed; its last arguments are err and sizeof err. */
#define OK(call)                                                    \
  do {                                                              \
    char err[512] = "";                                             \
    isobit_status ok_status = (call);                               \
    CHECK(ok_status == ISOBIT_OK, "status %d: %s", ok_status, err); \
  } while (0)

/* A call that must fail with a status and a text that has the given word in it. */
#define FAILS(want, word, call)                                                         \
  do {                                                                                  \
    char err[512] = "";                                                                 \
    isobit_status fails_status = (call);                                                \
    CHECK(fails_status == (want), "status %d, want %d: %s", fails_status, (want), err); \
    CHECK(strstr(err, word) != NULL, "\"%s\" is not in: %s", word, err);                \
  } while (0)

static inline isobit_plan make_plan(const char *problem) {
  isobit_plan plan = 0;
  OK(isobit_plan_create(problem, NULL, &plan, err, sizeof err));
  CHECK(plan != 0, "a plan without a handle: %s", problem);
  return plan;
}

/* A compact tensor that owns its memory and shape. */
typedef struct tensor {
  DLTensor dl;
  int64_t shape[8];
  int64_t count;
} tensor;

static const struct {
  const char *name;
  DLDataType type;
} dtypes[] = {{"f32", {kDLFloat, 32, 1}},   {"f64", {kDLFloat, 64, 1}}, {"f16", {kDLFloat, 16, 1}},
              {"bf16", {kDLBfloat, 16, 1}}, {"s8", {kDLInt, 8, 1}},     {"u8", {kDLUInt, 8, 1}},
              {"i32", {kDLInt, 32, 1}},     {"i64", {kDLInt, 64, 1}},   {"f8e4m3", {10, 8, 1}}};

static inline uint16_t f16_bits(double v) { /* v is exact and normal, or 0 */
  int e;
  const double m = frexp(fabs(v), &e);
  if (v == 0) return signbit(v) ? 0x8000 : 0;
  return (uint16_t)((signbit(v) ? 0x8000 : 0) | ((e + 14) << 10) | ((int)(m * 2048) - 1024));
}

static inline double f16_value(uint16_t h) {
  const int e = h >> 10 & 31;
  const double m = e ? ldexp(1024 + (h & 1023), e - 25) : ldexp(h & 1023, -24);
  return h & 0x8000 ? -m : m;
}

static inline int is_type(DLDataType a, int code, int bits) { return a.code == code && a.bits == bits; }

static inline void set_value(tensor *t, int64_t i, double v) {
  const DLDataType d = t->dl.dtype;
  void *p = (char *)t->dl.data + i * d.bits / 8;
  if (is_type(d, kDLFloat, 32))
    *(float *)p = (float)v;
  else if (is_type(d, kDLFloat, 64))
    *(double *)p = v;
  else if (is_type(d, kDLFloat, 16))
    *(uint16_t *)p = f16_bits(v);
  else if (d.code == kDLBfloat) {
    const float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    *(uint16_t *)p = (uint16_t)(bits >> 16);
  } else if (is_type(d, kDLInt, 8))
    *(int8_t *)p = (int8_t)v;
  else if (d.bits == 8) /* u8, and an 8-bit float as its bits */
    *(uint8_t *)p = (uint8_t)v;
  else if (is_type(d, kDLInt, 32))
    *(int32_t *)p = (int32_t)v;
  else
    *(int64_t *)p = (int64_t)v;
}

static inline double get_value(const tensor *t, int64_t i) {
  const DLDataType d = t->dl.dtype;
  const void *p = (const char *)t->dl.data + i * d.bits / 8;
  if (is_type(d, kDLFloat, 32)) return *(const float *)p;
  if (is_type(d, kDLFloat, 64)) return *(const double *)p;
  if (is_type(d, kDLFloat, 16)) return f16_value(*(const uint16_t *)p);
  if (d.code == kDLBfloat) {
    const uint32_t bits = (uint32_t)*(const uint16_t *)p << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
  }
  if (is_type(d, kDLInt, 8)) return *(const int8_t *)p;
  if (d.bits == 8) return *(const uint8_t *)p;
  if (is_type(d, kDLInt, 32)) return *(const int32_t *)p;
  return (double)*(const int64_t *)p;
}

/* Makes a tensor from a text such as "f32[2,3]", filled with 0xa5. */
static inline void make_tensor(tensor *t, const char *text) {
  memset(t, 0, sizeof *t);
  t->dl.device.device_type = kDLCPU;
  t->dl.shape = t->shape;
  t->count = 1;
  const size_t name = strcspn(text, "[");
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    if (strlen(dtypes[i].name) == name && strncmp(dtypes[i].name, text, name) == 0) t->dl.dtype = dtypes[i].type;
  CHECK(t->dl.dtype.bits != 0 && text[name] == '[', "not a tensor: %s", text);
  for (const char *p = text + name + 1; *p != ']'; p += *p == ',') {
    t->shape[t->dl.ndim] = strtoll(p, (char **)&p, 10);
    t->count *= t->shape[t->dl.ndim++];
  }
  const size_t bytes = (size_t)t->count * t->dl.dtype.bits / 8;
  t->dl.data = malloc(bytes ? bytes : 1);
  CHECK(t->dl.data != NULL, "no memory");
  memset(t->dl.data, 0xa5, bytes);
}

static inline void free_tensor(tensor *t) { free(t->dl.data); }

#endif
