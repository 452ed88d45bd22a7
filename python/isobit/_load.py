"""Where the C library is, and what the extension needs to know of torch.

Nothing here loads the library: the extension does, on the first call that
computes, so that importing isobit never fails because of it and a process that
only forks workers never has Go's threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch

from ._errors import ArgumentError

try:
    from . import _C
except ImportError as error:
    if any(Path(__file__).parent.glob("_C.*so")):
        raise
    raise ImportError("isobit is not built here; in a checkout, ./build.sh lib or pip install . does it") from error

PACKAGE = Path(__file__).resolve().parent
LIBRARY = "libisobit.so.1"

# torch's dtypes with DLPack's type code and width in bits, and what plans call them.
DTYPES: tuple[tuple[torch.dtype, int, int, str], ...] = (
    (torch.float32, 2, 32, "f32"),
    (torch.float64, 2, 64, "f64"),
    (torch.float16, 2, 16, "f16"),
    (torch.bfloat16, 4, 16, "bf16"),
    (torch.int8, 0, 8, "s8"),
    (torch.uint8, 1, 8, "u8"),
    (torch.int16, 0, 16, "s16"),
    (torch.uint16, 1, 16, "u16"),
    (torch.int32, 0, 32, "i32"),
    (torch.int64, 0, 64, "i64"),
    (torch.float8_e4m3fn, 10, 8, "f8e4m3"),
    (torch.float8_e5m2, 12, 8, "f8e5m2"),
    # Packed, two to a byte of uint8: names of the codes, which no tensor has as its dtype.
    *(
        (getattr(torch, t), code, 4, name)
        for t, code, name in (("int4", 0, "s4"), ("uint4", 1, "u4"))
        if hasattr(torch, t)
    ),
)
PACKED = tuple(dtype for dtype, _, bits, _ in DTYPES if bits == 4)


def checkout() -> Path | None:
    """The repository that this package lies in, if it lies in one."""
    root = PACKAGE.parent.parent
    return root if (root / "include" / "isobit.h").is_file() and (root / "python").is_dir() else None


def candidates() -> list[Path]:
    """Where the library may be, in the order of preference."""
    found = [PACKAGE / "lib" / LIBRARY]
    root = checkout()
    if root:
        found += [root / "build" / LIBRARY, root / "build" / "libisobit.so"]
    return found


def find_library() -> str:
    """The library's path; ISOBIT_LIBRARY in the environment overrides the search."""
    named = os.environ.get("ISOBIT_LIBRARY")
    if named:
        if not Path(named).is_file():
            raise RuntimeError(f"isobit: ISOBIT_LIBRARY names {named}, which is not a file")
        return str(Path(named).resolve())
    for path in candidates():
        if path.is_file():
            return str(path.resolve())
    places = ", ".join(str(p) for p in candidates())
    raise RuntimeError(
        f"isobit: no C library found (looked for {places}). "
        "In a checkout, ./build.sh lib builds it; ISOBIT_LIBRARY=/path/to/libisobit.so names another"
    )


def _empty_strided_cpu() -> Callable[..., torch.Tensor] | None:
    """What inductor's code allocates with: past torch's dispatcher, in half the time of torch.empty."""
    return getattr(getattr(torch._C._dynamo, "guards", None), "_empty_strided_cpu", None)


def _increment_version() -> Callable[[tuple[torch.Tensor, ...]], None]:
    """What tells autograd of a write, which it looks for in saved tensors; of one tensor in older versions."""
    increment: Callable[..., None] = torch._C._increment_version
    try:
        increment(())
    except (TypeError, RuntimeError):
        return lambda tensors: increment(tensors[0])
    return increment


increment_version = _increment_version()


def _sees_functions() -> bool:
    """Whether a mode has to see calls of functions: not what gives new tensors a device, which isobit's have."""
    modes = (torch._C._get_function_stack_at(i) for i in range(torch._C._len_torch_function_stack()))
    return any(
        f"{type(mode).__module__}.{type(mode).__name__}" != "torch.utils._device.DeviceContext" for mode in modes
    )


def _raw_stream(index: int) -> int:
    """torch's current stream on a CUDA device; 0 where it has no devices, so that the plan says what is wrong."""
    try:
        stream: int = torch._C._cuda_getCurrentRawStream(index)
    except (AttributeError, RuntimeError):
        if torch.cuda.is_available():
            raise
        return 0
    return stream


class Elsewhere(Exception):
    """Raised where autograd's function leaves a call to torch's dispatcher, before anything was computed."""


def set_up() -> None:
    """Tells the extension what it needs. Called once, by the package."""
    _C.set_finder(find_library)
    _C.set_error(ArgumentError)
    _C.set_torch(
        {
            "Tensor": torch.Tensor,
            "Parameter": torch.nn.Parameter,
            "empty": torch.empty,
            "empty_like": torch.empty_like,
            "empty_strided_cpu": _empty_strided_cpu(),
            "is_neg": torch.Tensor.is_neg,
            "is_grad_enabled": torch.is_grad_enabled,
            "get_num_threads": torch.get_num_threads,
            "dispatch_modes": torch._C._len_torch_dispatch_stack,
            "function_modes": torch._C._len_torch_function_stack,
            "sees_functions": _sees_functions,
            "tracing_state": torch._C._get_tracing_state,
            "raw_stream": _raw_stream,
            "increment_version": increment_version,
            "is_autocast_enabled": torch._C._is_any_autocast_enabled,
            "transforms_are_active": torch._C._are_functorch_transforms_active,
            "elsewhere": Elsewhere,
            "in_inference_mode": torch.is_inference_mode_enabled,
            "forward_ad": torch.autograd.forward_ad,
            "profiler": torch.autograd.profiler,
            "cpu": torch.device("cpu"),
        },
        DTYPES,
    )
