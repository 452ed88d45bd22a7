"""The ops: their arguments in run-time order, the defaults of a problem text, and `run`."""

import math

import numpy as np

from . import affine_grid, double_backward, embedding, grid_sample, linear, quantize
from .floats import dtype_name, shape_of
from .granularity import Groups
from .problem import TensorSpec, parse

__all__ = ["OPS", "ProblemError", "TensorSpec", "arguments", "run"]


class ProblemError(ValueError):
    """The inputs do not fit the problem."""


GRANULARITIES = ("per_tensor", "per_channel", "per_token", "per_group", "per_block")

# Per op: the function, the inputs and the outputs as (name, default). A default is a dtype, None
# for an absent argument, "required", or "=name" for another argument's dtype.
QUANTIZED = {
    "quantize": (
        quantize.quantize,
        [("x", "required"), ("scale", "f32"), ("zero_point", "i32")],
        [("q", "required")],
    ),
    "quantize_backward": (
        quantize.quantize_backward,
        [("grad_output", "required"), ("x", "=grad_output"), ("scale", "f32"), ("zero_point", "i32")],
        [("grad_input", "=x")],
    ),
    "dequantize": (
        quantize.dequantize,
        [("q", "required"), ("scale", "f32"), ("zero_point", "i32")],
        [("y", "required")],
    ),
    "dequantize_backward": (
        quantize.dequantize_backward,
        [("grad_output", "required"), ("q", "s8"), ("scale", "f32"), ("zero_point", "i32")],
        [("grad_input", "=grad_output"), ("grad_scale", None), ("grad_zero_point", None)],
    ),
    "fake_quantize": (
        quantize.fake_quantize,
        [("x", "required"), ("scale", "f32"), ("zero_point", "i32")],
        [("y", "=x")],
    ),
    "fake_quantize_backward": (
        quantize.fake_quantize_backward,
        [("grad_output", "required"), ("x", "=grad_output"), ("scale", "f32"), ("zero_point", "i32")],
        [("grad_input", "=grad_output"), ("grad_scale", None), ("grad_zero_point", None)],
    ),
    "choose_qparams": (
        quantize.choose_qparams,
        [("x", "required")],
        [("scale", "scale of x"), ("zero_point", "zero point")],
    ),
    "dynamic_quantize": (
        quantize.dynamic_quantize,
        [("x", "required")],
        [("q", "required"), ("scale", "scale of x"), ("zero_point", "zero point")],
    ),
}

PLAIN = {
    "embedding": (
        embedding.embedding,
        [("weight", "required"), ("indices", "required")],
        [("y", "=weight")],
    ),
    "embedding_backward": (
        embedding.embedding_backward,
        [("grad_output", "required"), ("indices", "required")],
        [("grad_weight", "required")],
    ),
    "embedding_bag": (
        embedding.embedding_bag,
        [("weight", "required"), ("indices", "required"), ("offsets", None), ("per_sample_weights", None)],
        [("y", "=weight"), ("chosen", None)],
    ),
    "weight_only_embedding_bag": (
        embedding.weight_only_embedding_bag,
        [
            ("weight", "required"),
            ("indices", "required"),
            ("offsets", None),
            ("per_sample_weights", None),
            ("weight_scale", "f32"),
            ("weight_zero_point", None),
        ],
        [("y", "f32")],
    ),
    "embedding_bag_backward": (
        embedding.embedding_bag_backward,
        [
            ("grad_output", "required"),
            ("indices", "required"),
            ("offsets", None),
            ("per_sample_weights", None),
            ("chosen", None),
        ],
        [("grad_weight", "required")],
    ),
    "embedding_bag_per_sample_weights_backward": (
        embedding.embedding_bag_per_sample_weights_backward,
        [("grad_output", "required"), ("weight", "required"), ("indices", "required"), ("offsets", None)],
        [("grad_per_sample_weights", "=weight")],
    ),
    "embedding_renorm": (
        embedding.embedding_renorm,
        [("weight", "required"), ("indices", "required")],
        [],
    ),
    "grid_sample": (
        grid_sample.grid_sample,
        [("input", "required"), ("grid", "required")],
        [("y", "=input")],
    ),
    "grid_sample_backward": (
        grid_sample.grid_sample_backward,
        [("grad_output", "required"), ("input", "required"), ("grid", "required")],
        [("grad_input", "=input"), ("grad_grid", "=grid")],
    ),
    "grid_sample_double_backward": (
        double_backward.grid_sample_double_backward,
        [
            ("grad_output", "required"),
            ("input", "required"),
            ("grid", "required"),
            ("grad_grad_input", "=input"),
            ("grad_grad_grid", "=grid"),
        ],
        [("grad_grad_output", "=grad_output"), ("grad_input", "=input"), ("grad_grid", "=grid")],
    ),
    "affine_grid": (
        affine_grid.affine_grid,
        [("theta", "required")],
        [("grid", "required")],
    ),
    "affine_grid_backward": (
        affine_grid.affine_grid_backward,
        [("grad_grid", "required")],
        [("grad_theta", "=grad_grid")],
    ),
    "quantized_linear": (
        linear.quantized_linear,
        [
            ("x", "required"),
            ("x_scale", "f32"),
            ("weight", "required"),
            ("weight_scale", "f32"),
            ("bias", "f32"),
        ],
        [("y", "f32")],
    ),
    "quantized_linear_per_group": (
        linear.quantized_linear_per_group,
        [
            ("x", "required"),
            ("x_scale", "f32"),
            ("x_zero_point", None),
            ("weight", "required"),
            ("weight_scale", "f32"),
            ("weight_zero_point", None),
            ("bias", "f32"),
        ],
        [("y", "f32")],
    ),
    "weight_only_linear": (
        linear.weight_only_linear,
        [
            ("x", "required"),
            ("weight", "required"),
            ("weight_scale", "f32"),
            ("weight_zero_point", None),
            ("bias", "f32"),
        ],
        [("y", "=x")],
    ),
    "matmul": (
        linear.matmul,
        [("input", "required"), ("other", "required"), ("bias", None)],
        [("y", "=input")],
    ),
}

OPS = dict(PLAIN)
GRANULARITY = {}
for _granularity in GRANULARITIES:
    for _name, _entry in QUANTIZED.items():
        _stem, _, _tail = _name.partition("_backward")
        _op = f"{_stem}_{_granularity}" + ("_backward" if _name.endswith("_backward") else "")
        OPS[_op] = _entry
        GRANULARITY[_op] = _granularity


class Bound:
    """A problem with its defaults filled in. An absent argument's spec is None."""

    def __init__(self, text):
        problem = parse(text)
        if problem.op not in OPS:
            raise ProblemError(f"no op {problem.op}")
        self.op, self.values = problem.op, problem.values
        self.granularity = GRANULARITY.get(problem.op)
        self.function, inputs, outputs = OPS[problem.op]
        specs = {}
        for name, default in inputs + outputs:
            specs[name] = self.spec(name, default, specs)
        self.inputs = {name: specs[name] for name, _ in inputs}
        self.outputs = {name: specs[name] for name, _ in outputs}

    def spec(self, name, default, specs):
        if name in self.values:
            return self.values[name]
        if default == "required":
            raise ProblemError(f"{self.op}: {name} is required")
        if default is None:
            return None
        if default.startswith("="):
            return TensorSpec(specs[default[1:]].dtype)
        if default == "scale of x":
            return TensorSpec("f64" if specs["x"].dtype == "f64" else "f32")
        if default == "zero point":
            return None if self.values.get("symmetric", True) else TensorSpec("i32")
        return TensorSpec(default)


def arguments(text):
    """Every argument of a problem as (name, "in", "out" or "inout", TensorSpec with a shape, or
    None for an absent one)."""
    problem = Bound(text)
    shapes = argument_shapes(problem)
    rows = []
    for direction, specs in (("in", problem.inputs), ("out", problem.outputs)):
        for name, spec in specs.items():
            if spec is not None:
                spec = TensorSpec(spec.dtype, spec.shape if spec.shape is not None else shapes[name])
            in_place = problem.op == "embedding_renorm" and name == "weight"
            rows.append((name, "inout" if in_place else direction, spec))
    return rows


def argument_shapes(problem):
    """The shapes that follow from those in the text."""
    given = {**problem.inputs, **problem.outputs}
    shape = {name: spec.shape for name, spec in given.items() if spec is not None}
    if problem.granularity:
        x = next(s for s in shape.values() if s is not None)
        parameters = Groups(x, problem.granularity, problem.values).shape
        of_parameters = ("scale", "zero_point", "grad_scale", "grad_zero_point")
        return {name: parameters if name in of_parameters else x for name in shape}
    if problem.op == "embedding":
        return {"y": (*shape["indices"], shape["weight"][1])}
    if "embedding_bag" in problem.op:
        index = shape["indices"]
        bags = (
            shape["offsets"][0] - problem.values.get("include_last_offset", False) if "offsets" in shape else index[0]
        )
        table = next(shape[name] for name in ("weight", "grad_weight") if name in shape)
        result = (bags, table[1])
        groups = (table[0], math.ceil(table[1] / problem.values.get("group_size", 1)))
        parameters = {"weight_scale": groups, "weight_zero_point": groups}
        of_indices = {"per_sample_weights": index, "grad_per_sample_weights": index}
        return {"y": result, "chosen": result, **of_indices, **parameters}
    if problem.op == "grid_sample":
        return {"y": (*shape["input"][:2], *shape["grid"][1:-1])}
    if problem.op == "grid_sample_backward":
        return {"grad_input": shape["input"], "grad_grid": shape["grid"]}
    if problem.op == "grid_sample_double_backward":
        image = dict.fromkeys(("grad_grad_input", "grad_input"), shape["input"])
        return {
            "grad_grad_output": shape["grad_output"],
            **image,
            **dict.fromkeys(("grad_grad_grid", "grad_grid"), shape["grid"]),
        }
    if problem.op == "affine_grid_backward":
        n, *_, rows = shape["grad_grid"]
        return {"grad_theta": (n, rows, rows + 1)}
    if problem.op == "quantized_linear":
        m, n = shape["x"][0], shape["weight"][0]
        return {"x_scale": (m,), "weight_scale": (n,), "bias": (n,), "y": (m, n)}
    if problem.op in ("weight_only_linear", "quantized_linear_per_group"):
        m, (n, k) = shape["x"][0], shape["weight"]
        groups = (n, math.ceil(k / problem.values["group_size"]))
        parameters = {"weight_scale": groups, "weight_zero_point": groups, "x_scale": (m,), "x_zero_point": (m,)}
        return {**parameters, "bias": (n,), "y": (m, n)}
    if problem.op == "matmul":
        n = shape["other"][-1]
        return {"bias": (n,), "y": (*shape["input"][:-1], n)}
    return {}


def check(problem, inputs):
    if len(inputs) != len(problem.inputs):
        raise ProblemError(f"{problem.op} takes {len(problem.inputs)} inputs, got {len(inputs)}")
    shapes = argument_shapes(problem)
    for (name, spec), given in zip(problem.inputs.items(), inputs, strict=True):
        if (spec is None) != (given is None):
            raise ProblemError(f"{problem.op}: {name} is {'absent' if given is None else 'present'}")
        if spec is None:
            continue
        want = tuple(spec.shape if spec.shape is not None else shapes[name])
        same_shape = shape_of(given) == want
        if name in ("scale", "zero_point"):
            same_shape = math.prod(shape_of(given)) == math.prod(want)
        if dtype_name(given) != spec.dtype or not same_shape:
            raise ProblemError(
                f"{problem.op}: {name} is {dtype_name(given)}{list(shape_of(given))}, wanted {spec.dtype}{list(want)}"
            )


def run(problem_text, inputs, initial=None):
    """The outputs of a problem, in argument order."""
    problem = Bound(problem_text)
    check(problem, inputs)
    more = {"initial": initial} if problem.op in ("embedding_backward", "embedding_bag_backward") else {}
    with np.errstate(all="ignore"):
        return problem.function(problem, *inputs, **more)
