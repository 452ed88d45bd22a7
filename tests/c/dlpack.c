/* isobit.h beside a dlpack.h of upstream's, in either order or alone. Compiled
 * once with each of DLPACK_BEFORE, DLPACK_AFTER and neither, as C and as C++. */
#ifdef DLPACK_BEFORE
#include "upstream/dlpack.h"
#endif
#include <isobit.h>
#ifdef DLPACK_AFTER
#include "upstream/dlpack.h"
#endif
#include <isobit.h> /* twice is fine */

/* The layout that every DLPack 1.x library has. */
#ifdef __cplusplus
#define STATIC_ASSERT(c) static_assert(c, #c)
#else
#define STATIC_ASSERT(c) _Static_assert(c, #c)
#endif
STATIC_ASSERT(sizeof(DLDevice) == 8);
STATIC_ASSERT(sizeof(DLDataType) == 4);
STATIC_ASSERT(sizeof(DLTensor) == 48);
STATIC_ASSERT(offsetof(DLTensor, device) == 8);
STATIC_ASSERT(offsetof(DLTensor, ndim) == 16);
STATIC_ASSERT(offsetof(DLTensor, dtype) == 20);
STATIC_ASSERT(offsetof(DLTensor, shape) == 24);
STATIC_ASSERT(offsetof(DLTensor, strides) == 32);
STATIC_ASSERT(offsetof(DLTensor, byte_offset) == 40);
STATIC_ASSERT(sizeof(DLManagedTensor) == 64);
STATIC_ASSERT(sizeof(DLManagedTensorVersioned) == 80);
STATIC_ASSERT(offsetof(DLManagedTensorVersioned, flags) == 24);
STATIC_ASSERT(kDLBfloat == 4 && kDLBool == 6 && kDLCUDA == 2);
STATIC_ASSERT(sizeof(isobit_preference) == 32);

int main(void) {
  DLTensor t = {0, {kDLCPU, 0}, 0, {kDLFloat, 32, 1}, 0, 0, 0};
  const DLTensor *args[] = {&t};
  return isobit_plan_run(0, 0, 0, 0, args, 1, 0, 0) == ISOBIT_INVALID_HANDLE ? 0 : 1;
}
