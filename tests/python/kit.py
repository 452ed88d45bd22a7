"""What the tests share: torch tensors to and from tests/reference, and its answers."""

import multiprocessing
import os
import sys
import tempfile
import textwrap
import warnings
from pathlib import Path

import numpy as np
import torch

TESTS = Path(__file__).resolve().parent.parent
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))

import reference  # noqa: E402

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
NAMES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int8: "s8",
    torch.uint8: "u8",
    torch.int16: "s16",
    torch.uint16: "u16",
    torch.int32: "i32",
    torch.int64: "i64",
}
TORCH = {name: dtype for dtype, name in NAMES.items()}
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def spell(t, shape=False):
    """A tensor as a problem's text has it: `f32`, `f32[2,3]`, `none`."""
    if t is None:
        return "none"
    if isinstance(t, torch.dtype):
        return NAMES[t]
    return NAMES[t.dtype] + ("[" + ",".join(map(str, t.shape)) + "]" if shape else "")


def to_reference(t):
    if t is None:
        return None
    t = t.detach().contiguous()
    if t.dtype != torch.bfloat16:
        return t.numpy()
    return reference.array_of_bits(t.view(torch.int16).numpy().tobytes(), "bf16", tuple(t.shape))


def from_reference(a):
    if a is None:
        return None
    shape = tuple(reference.shape_of(a))
    dtype = TORCH[reference.dtype_name(a)]
    data = bytearray(reference.bits_of(a))
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(data, dtype=dtype).reshape(shape)


def expect(problem, *tensors):
    """The outputs of a problem by the reference: one tensor, or a tuple of them."""
    with np.errstate(all="ignore"):
        outputs = [from_reference(a) for a in reference.run(problem, [to_reference(t) for t in tensors])]
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def same(a, b):
    """Whether two tensors are equal bit for bit; any NaN equals any NaN."""
    if a is None or b is None:
        return a is b
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    a, b = a.detach().contiguous(), b.detach().contiguous()
    bits = BITS[a.dtype.itemsize]
    equal = a.view(bits) == b.view(bits) if a.dim() else a.reshape(1).view(bits) == b.reshape(1).view(bits)
    if a.dtype.is_floating_point:
        equal = equal | (a.isnan() & b.isnan()).reshape(equal.shape)
    return bool(equal.all())


def assert_same(got, want):
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            assert_same(g, w)
        return
    if not same(got, want):
        assert got is not None and want is not None, f"got {got}, want {want}"
        assert got.dtype == want.dtype and got.shape == want.shape, (
            f"got {got.dtype} {list(got.shape)}, want {want.dtype} {list(want.shape)}"
        )
        wrong = ~((got == want) | (got.isnan() & want.isnan()))
        raise AssertionError(f"{int(wrong.sum())} of {wrong.numel()} differ:\ngot\n{got}\nwant\n{want}")


def draw(*shape, dtype=torch.float32, seed=0, spread=4.0, special=False):
    """Normal values; with special, some are zeros, infinities, NaN, denormals, ties."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=g, dtype=torch.float64) * spread
    if special and x.numel():
        pool = torch.tensor(
            [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-40, -1e-40, 0.5, 1.5, -2.5, 1e30, -1e30]
        ).double()
        pick = torch.randint(0, len(pool) * 3, shape, generator=g)
        x = torch.where(pick < len(pool), pool[pick.clamp(max=len(pool) - 1)], x)
    return x.to(dtype)


def layouts(x):
    """The same values in other layouts: name and tensor."""
    yield "contiguous", x
    if x.dim() >= 2:
        yield "transposed", x.transpose(0, -1).contiguous().transpose(0, -1)
    if x.dim() >= 1:
        wide = torch.zeros(*x.shape[:-1], 2 * x.shape[-1] + 1, dtype=x.dtype)
        wide[..., 1::2] = x
        yield "sliced", wide[..., 1::2]
        padded = torch.zeros(x.shape[0] + 2, *x.shape[1:], dtype=x.dtype)
        padded[1:-1] = x
        yield "offset", padded[1:-1]
    if x.dim() == 4:
        yield "channels_last", x.contiguous(memory_format=torch.channels_last)


# Of each program's own process only the import of torch, which takes seconds, has been done before.
fresh = multiprocessing.get_context("forkserver")
fresh.set_forkserver_preload(["torch"])


def python(program, timeout=120, **environment):
    """Runs a program in a process that has imported nothing of isobit; its output."""
    with tempfile.TemporaryDirectory() as folder:
        out = [Path(folder, name) for name in ("stdout", "stderr")]
        child = fresh.Process(target=run, args=(textwrap.dedent(program), {**os.environ, **environment}, out))
        child.start()
        child.join(timeout)
        ended = child.exitcode is not None
        if not ended:
            child.kill()
            child.join()
        stdout, stderr = (file.read_text() if file.exists() else "" for file in out)
        assert ended and child.exitcode == 0, (
            f"{stdout}\n{stderr}\nexit code {child.exitcode}, within {timeout} s: {ended}"
        )
        return stdout


def run(program, environment, out):
    for number, file in enumerate(out, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(environment)
    warnings.simplefilter("ignore")
    exec(compile(program, "program", "exec"), {"__name__": "__main__"})
