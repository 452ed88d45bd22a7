// A stand-in for libcuda.so.1 that runs kernels on the CPU, one after the
// other, in memory of the host. It tests everything between a plan and the
// driver: contexts, modules, how arguments are passed, what errors become.
//
// ISOBIT_FAKE_CUDA chooses what goes wrong: "nodevice", "old" (the driver),
// "launch" (launches fail), "capture" (loading a module while a stream
// captures, unless the thread is relaxed, fails), "weak" (an old GPU), "image"
// (modules do not load), "slow" (loading a second module takes until a kernel
// has run).
#include "shim.h"
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Context {
  int device;
} contexts[2] = {{0}, {1}};

enum {
  success = 0,
  invalid_value = 1,
  no_device = 100,
  invalid_image = 200,
  capture_unsupported = 900,
  launch_failed = 719
};

thread_local std::vector<Context *> stack;
thread_local int capture_mode;
std::atomic<int> loaded, launched;

bool fault(const char *name) {
  const char *chosen = getenv("ISOBIT_FAKE_CUDA");
  return chosen && strcmp(chosen, name) == 0;
}

// Waits for a launch: false if none comes.
bool wait_for_launch() {
  for (int before = launched, waits = 0; launched == before; waits++) {
    if (waits == 5000) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

} // namespace

extern "C" {

int cuInit(unsigned) { return fault("nodevice") ? no_device : success; }

int cuDriverGetVersion(int *version) {
  *version = fault("old") ? 11080 : 13000;
  return success;
}

int cuDeviceGetCount(int *n) {
  *n = 2;
  return success;
}

// Compute capability 7.5, 9.0: attributes 75 and 76 are its two numbers.
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  *value = attribute == 75 ? (device == 0 ? 7 : 9) : attribute == 76 ? (device == 0 && !fault("weak") ? 5 : 0) : 0;
  return success;
}

int cuDevicePrimaryCtxRetain(Context **context, int device) {
  *context = &contexts[device];
  return success;
}

int cuCtxGetCurrent(Context **context) {
  *context = stack.empty() ? nullptr : stack.back();
  return success;
}

int cuCtxPushCurrent_v2(Context *context) {
  stack.push_back(context);
  return success;
}

int cuCtxPopCurrent_v2(Context **context) {
  *context = stack.back();
  stack.pop_back();
  return success;
}

int cuThreadExchangeStreamCaptureMode(int *mode) {
  int old = capture_mode;
  capture_mode = *mode;
  *mode = old;
  return success;
}

// A module is the name of its kernel; a function too, and its context.
int cuModuleLoadData(std::string **module, const char *ptx) {
  if (stack.empty()) return invalid_value;
  if (fault("capture") && capture_mode != 2) return capture_unsupported;
  const char *entry = strstr(ptx, ".visible .entry ");
  if (!entry || fault("image")) return invalid_image;
  if (loaded++ > 0 && fault("slow") && !wait_for_launch()) return invalid_image;
  entry += strlen(".visible .entry ");
  *module = new std::string(entry, strcspn(entry, "("));
  return success;
}

int cuModuleGetFunction(void **function, std::string *module, const char *name) {
  if (*module != name) return invalid_value;
  *function = new std::pair<Context *, std::string>(stack.back(), name);
  return success;
}

int cuFuncGetAttribute(int *value, int, void *) {
  *value = 256;
  return success;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned, void *stream, void **params, void **) {
  auto f = (std::pair<Context *, std::string> *)function;
  if (fault("launch")) return launch_failed;
  launched++;
  if (stack.empty() || stack.back() != f->first) return invalid_value;
  if (stream != (void *)0x5757) shim_fail("launched on another stream than the caller's");
  static std::mutex one_at_a_time;
  std::lock_guard<std::mutex> lock(one_at_a_time);
  return shim_run(f->second.c_str(), {gx, gy, gz}, {bx, by, bz}, params[0], 0, false) ? success : launch_failed;
}

} // extern "C"
