#include "weight_only_linear.cuh"

#define WEIGHT_ONLY_LINEAR(X) STRIPE_KERNELS(weight_only_linear_##X, WeightOnlyLinear<X>)
EACH_FLOAT(WEIGHT_ONLY_LINEAR)
