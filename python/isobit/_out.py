"""out=: results in tensors that the caller gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.compiler import is_dynamo_compiling

from ._autocast import suspended
from ._checks import check_dense, check_device
from ._errors import ArgumentError
from ._explain import explain
from ._memory import is_at_odd_address
from ._op import Op
from ._transforms import has_tangent, wants_gradient


def check_not_inference(named: str, t: torch.Tensor) -> None:
    """Raises where t, which is to be written, was made in inference mode and this is not that."""
    if not is_dynamo_compiling() and t.is_inference() and not torch.is_inference_mode_enabled():
        raise RuntimeError(f"{named} is an inference tensor; want a clone of it, or torch.inference_mode()")


def check_out(name: str, out: Any, *inputs: Any) -> None:
    """out= has no gradient, and outside of inference mode it is no tensor from there, as in torch."""
    if not is_dynamo_compiling() and _has_address(out) and out._is_zerotensor():
        raise RuntimeError(f"{name}: out is a ZeroTensor, which has no memory; want a clone of it")
    if has_tangent(out, *inputs):
        raise RuntimeError(f"{name}: out= does not work with forward-mode derivatives; use the result")
    if wants_gradient(out, *inputs):
        raise RuntimeError(f"{name}: out= does not work where a gradient is wanted; use torch.no_grad()")
    check_not_inference(f"{name}: out", out)
    if torch._C._are_functorch_transforms_active():
        raise RuntimeError(f"{name}: out= does not work within vmap and torch.func's transforms; use the result")


def _take(name: str, out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Copies the result to out. Raises, as the direct call does, where type or shape differ; an out without elements is
    resized, as in torch."""
    if out.dtype != y.dtype:
        raise ArgumentError(f"{name}: out is {out.dtype}; want {y.dtype}")
    if out.shape != y.shape:
        wrong = f"{name}: out has shape {list(out.shape)}; want {list(y.shape)}"
        if out.numel() > 0:
            raise ArgumentError(wrong)
        try:
            out.resize_(y.shape)
        except RuntimeError as error:  # memory that is not torch's
            raise ArgumentError(f"{wrong}, to which it cannot be resized") from error
    out.detach().copy_(y)  # code that PyTorch 2.8 compiles does not write to float64 [] itself
    return out


def _overlaps(t: torch.Tensor) -> bool:
    """Whether elements may share memory, by the rule that plans have for their outputs."""
    reach = 0
    for stride, extent in sorted(pair for pair in zip(t.stride(), t.shape, strict=True) if pair[1] > 1):
        if stride <= reach:
            return t.numel() > 0
        reach += stride * (extent - 1)
    return False


def _has_address(t: torch.Tensor) -> bool:
    """Whether its elements are in its memory: not on meta, nor of a subclass, such as a fake tensor."""
    return type(t) in (torch.Tensor, torch.nn.Parameter) and not t.is_meta


def check_place(name: str, out: torch.Tensor) -> None:
    """Raises where out's elements share memory or have none, as plans do: where there is none, torch's copy_ ends
    the process."""
    if is_dynamo_compiling():
        return
    if _has_address(out) and out.numel() > 0 and out.untyped_storage().nbytes() == 0:
        raise ArgumentError(f"{name}: out has no memory: its storage was given back")
    if _overlaps(out):
        raise ArgumentError(
            f"{name}: out has strides {list(out.stride())} with which elements may overlap; it is an output"
        )


def _is_copied(out: torch.Tensor) -> bool:
    """Whether out takes a copy, since plans do not write it as it lies: negative views, bytes of packed codes that are
    not contiguous, odd addresses, and what has no elements yet."""
    if out.numel() == 0:
        return True
    apart = out.dtype == torch.uint8 and out.dim() > 0 and out.stride(-1) != 1
    return apart or out.is_neg() or (_has_address(out) and is_at_odd_address(out))


def copy_out(name: str, out: torch.Tensor, f: Callable[..., torch.Tensor], *args: Any) -> torch.Tensor:
    """out= of a function that is more than one op: takes a copy of the result."""
    check_dense(name, out=out)
    check_out(name, out, *args)
    check_place(name, out)
    with suspended(out.device.type):
        y = f(*args)
    check_device(name, "out", out, "the result", y.device)
    return _take(name, out, y)


def write_out(op: Op, out: torch.Tensor, *args: Any) -> torch.Tensor:
    """The call with a given output, where the direct call did not take it."""
    check_dense(op.name, out=out)
    if not is_dynamo_compiling():
        explain(op, args)
    check_out(op.name, out, *args)
    check_device(op.name, "out", out, op.names[op.signature.inputs[0].name], args[0].device)
    op.check_devices(args)
    if is_dynamo_compiling() or torch._C._len_torch_dispatch_stack() or out.device.type == "meta" or _is_copied(out):
        check_place(op.name, out)
        return _take(op.name, out, op(*args))
    plain = (a.resolve_neg() if isinstance(a, torch.Tensor) else a for a in op.with_tensors(args))
    op.checked_run(*plain, out)
    return out
