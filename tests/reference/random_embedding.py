"""Random problems of embeddings and of bags of them."""

import math

import numpy as np

from .floats import FLOATS
from .random_quantized import codes


def embedding_sizes(d):
    rows, width = d.one_of(1, 2, 5, 40), d.one_of(0, *[d.extent()] * 20)
    return d.float_type(), d.one_of("i32", "i64"), rows, width, d.shape(0, 3, limit=6000 // max(width, 1) + 3)


def embedding(d):
    dtype, index, rows, width, shape = embedding_sizes(d)
    skip = ["bounds=skip"] if d.chance(0.5) else []
    return [f"weight={d.spec(dtype, [rows, width])}", f"indices={d.spec(index, shape)}", *skip]


def embedding_backward(d):
    dtype, index, rows, width, shape = embedding_sizes(d)
    if d.chance(0.2):
        rows, width, shape = d.one_of(1, 3), d.one_of(1, 2, 9), [int(d.rng.integers(250, 1500))]
    fields = [f"grad_output={d.spec(dtype, [*shape, width])}", f"indices={d.spec(index, shape)}"]
    fields.append(f"grad_weight={d.spec(dtype, [rows, width])}")
    fields += [f"padding_idx={int(d.rng.integers(-1, rows))}"] if d.chance(0.5) else []
    fields += [f"{name}=true" for name in ("accumulate", "scale_grad_by_freq") if d.chance(0.4)]
    return fields


def bag_sizes(d):
    """The keys of bags, and their number."""
    dtype, index, rows, width, _ = embedding_sizes(d)
    count = d.one_of(0, 1, 3, 7, 30)
    n = count * d.one_of(0, 1, 4, 12) if d.chance(0.8) else int(d.rng.integers(250, 900))
    if width * n > 20_000:
        width = d.one_of(1, 2, 9)
    fields = [f"padding_idx={int(d.rng.integers(-1, rows))}"] if d.chance(0.5) else []
    if d.chance(0.3):
        return dtype, rows, width, count, [*fields, f"indices={d.spec(index, [count, n // max(count, 1)])}"]
    last = d.chance(0.5)
    fields += [f"indices={d.spec(index, [n])}", f"offsets={d.spec(d.one_of('i32', 'i64'), [count + last])}"]
    return dtype, rows, width, count, [*fields, *(["include_last_offset=true"] if last else [])]


def bag_mode(d, dtype):
    mode = d.one_of("mean", "sum", "max", "weighted")
    if mode == "weighted":
        return ["mode=sum", f"per_sample_weights={dtype}"]
    return [] if mode == "mean" else [f"mode={mode}"]


def embedding_bag(d):
    dtype, rows, width, _, fields = bag_sizes(d)
    mode = bag_mode(d, dtype)
    fields += [f"weight={d.spec(dtype, [rows, width])}", *mode]
    fields += ["chosen=i64"] if mode == ["mode=max"] and d.chance(0.7) else []
    return fields + (["bounds=skip"] if d.chance(0.5) else [])


def weight_only_embedding_bag(d):
    y, rows, width, _, fields = bag_sizes(d)
    fields += [f"weight={d.spec(d.one_of('s8', 'u8'), [rows, width])}", f"y={y}", *bag_mode(d, y)]
    fields += [f"weight_scale={d.one_of('f32', 'f32', *FLOATS)}", f"group_size={d.one_of(1, 5, 16, 32, 1000)}"]
    fields += [f"weight_zero_point={d.one_of('none', 'i32', 'u8', *FLOATS)}"]
    return fields + (["bounds=skip"] if d.chance(0.5) else [])


def embedding_bag_backward(d):
    dtype, rows, width, count, fields = bag_sizes(d)
    mode = bag_mode(d, dtype)
    fields += [f"grad_output={d.spec(dtype, [count, width])}", f"grad_weight={d.spec(dtype, [rows, width])}", *mode]
    fields += ["accumulate=true"] if d.chance(0.4) else []
    if mode == ["mode=max"]:
        return [*fields, "chosen=i64"]
    return fields + (["scale_grad_by_freq=true"] if d.chance(0.4) else [])


def embedding_bag_per_sample_weights_backward(d):
    dtype, rows, width, count, fields = bag_sizes(d)
    return [*fields, f"grad_output={d.spec(dtype, [count, width])}", f"weight={d.spec(dtype, [rows, width])}"]


def embedding_renorm(d):
    norm = [f"norm_type={d.one_of('1', '2', 'inf', '0', '-inf')}"] if d.chance(0.7) else []
    return embedding(d) + norm + [f"max_norm={d.one_of('0', '0.1', '1', '30', '-1', '1e-30')}"]


def fill(d):
    def value(name, spec):
        if name in ("offsets", "chosen"):
            n = math.prod(d.given("indices").shape)
            values = d.rng.integers(-(name == "chosen"), n + 1, spec.shape)
            if name == "offsets":
                values = np.sort(values)
                values[:1] = 0
            return d.stored(values, spec.dtype)
        if name != "indices" and spec.dtype not in FLOATS:
            return codes(d, spec.dtype, spec.shape)
        if name != "indices":
            return d.normal(spec.dtype, spec.shape)
        rows = next(s for n, _, s in d.arguments if n in ("weight", "grad_weight")).shape[0]
        wild = d.op.endswith("_backward") or d.values.get("bounds") == "skip"
        low, high = (-2, rows + 2) if wild else (0, rows)
        return d.stored(d.rng.integers(low, high, spec.shape), spec.dtype)

    return d.each_input(value)


PLAIN = {
    "embedding": embedding,
    "embedding_backward": embedding_backward,
    "embedding_bag": embedding_bag,
    "weight_only_embedding_bag": weight_only_embedding_bag,
    "embedding_bag_backward": embedding_bag_backward,
    "embedding_bag_per_sample_weights_backward": embedding_bag_per_sample_weights_backward,
    "embedding_renorm": embedding_renorm,
}
