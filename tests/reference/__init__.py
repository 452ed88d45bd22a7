"""The independent reference of isobit's ops, in numpy, written from the numeric contract alone.

    reference.run("quantize_per_tensor x=f32[4] q=s8 qmin=-128 qmax=127", [x, scale, zero_point])

takes a problem's text and its inputs in the problem's argument order (None for an absent one)
and returns the outputs in that order (None for one that the problem leaves out). numpy has no
bfloat16: such tensors are reference.BF16, an array of 16-bit patterns.

An op that accumulates reads its outputs' first values from the keyword `initial`.
"""

from .floats import BF16, array_of_bits, bits_of, dtype_name, same_bits, shape_of
from .ops import OPS, ProblemError, TensorSpec, arguments, run
from .problem import Problem, parse

__all__ = [
    "BF16",
    "OPS",
    "Problem",
    "ProblemError",
    "TensorSpec",
    "arguments",
    "array_of_bits",
    "bits_of",
    "dtype_name",
    "parse",
    "run",
    "same_bits",
    "shape_of",
]
