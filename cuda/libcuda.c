// clang-format off
//go:build cgo && cuda && linux
// clang-format on

// Stands in for libcuda.so.1, which is opened when it is first used: one
// library for machines with a driver and without. gorgonia.org/cu calls these
// functions; each jumps through a slot, which holds a function that says "no
// device" until isobit_cuda_open has found the real one.

#include "libcuda.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

#define HIDDEN __attribute__((visibility("hidden")))

enum { no_device = 100 }; // CUDA_ERROR_NO_DEVICE

HIDDEN int isobit_cuda_absent(void) { return no_device; }

#define X(name) HIDDEN void *isobit_slot_##name = (void *)isobit_cuda_absent;
#include "z_symbols.h"
#undef X

#if defined(__x86_64__)
#define JUMP(name) "jmp *isobit_slot_" #name "(%rip)\n"
#elif defined(__aarch64__)
#define JUMP(name)                                 \
  "adrp x16, isobit_slot_" #name "\n"              \
  "ldr x16, [x16, #:lo12:isobit_slot_" #name "]\n" \
  "br x16\n"
#else
#error "libcuda.c has no jump for this processor"
#endif

#define X(name)                                                                                         \
  __asm__(".pushsection .text\n.globl " #name "\n.hidden " #name "\n.type " #name ", %function\n" #name \
          ":\n" JUMP(name) ".size " #name ", . - " #name "\n.popsection\n");
#include "z_symbols.h"
#undef X

// gorgonia.org/cu calls cuInit before main and ends the process if it fails.
HIDDEN int cuInit(unsigned flags) {
  (void)flags;
  return 0;
}

static struct {
  const char *name;
  void **slot;
} const slots[] = {
#define X(name) {#name, &isobit_slot_##name},
#include "z_symbols.h"
#undef X
};

static int (*exchange_capture_mode)(int *mode);

int isobit_cuda_open(char *why, unsigned long size) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    snprintf(why, size, "there is no CUDA driver: %s", dlerror());
    return 0;
  }
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
  int result = init ? init(0) : no_device;
  if (result == no_device) {
    snprintf(why, size, "the CUDA driver finds no device");
    return 0;
  }
  if (result != 0) {
    snprintf(why, size, "the CUDA driver does not start: cuInit gives error %d", result);
    return 0;
  }
  // What an older driver lacks keeps saying "no device".
  for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
    void *f = dlsym(library, slots[i].name);
    if (f) *slots[i].slot = f;
  }
  exchange_capture_mode = (int (*)(int *))dlsym(library, "cuThreadExchangeStreamCaptureMode");
  return 1;
}

int isobit_cuda_capture_mode(int mode) {
  if (exchange_capture_mode) exchange_capture_mode(&mode);
  return mode;
}
