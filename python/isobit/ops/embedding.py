"""embedding, its dense and sparse gradient, and the renormalisation of max_norm."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from .._checks import MAX_DIMS, check_dense, check_kinds, spell
from .._errors import ArgumentError
from .._gradient import Frame, once
from .._jagged import is_jagged, of_values
from .._op import LIBRARY, Op
from .._out import check_not_inference, write_out
from .._transforms import has_tangent, wants_gradient
from .._vmap import Dims, front
from ._product import KINDS
from ._sparse import check_unmapped, coalesced, distinct

_FORWARD = Op(
    "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, "
    "bool sparse=False) -> Tensor",
    "embedding",
    "weight[] indices[]",
    "padding_idx:x scale_grad_by_freq:B sparse:B",
    "y = indices weight[1:] : weight",
)
_BACKWARD = Op(
    "embedding_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx=-1, "
    "bool scale_grad_by_freq=False) -> Tensor",
    "embedding_backward",
    "grad_output[] indices[]",
    "num_weights:I padding_idx:i scale_grad_by_freq:b",
    "grad_weight[] = num_weights grad_output[-1:] : grad_output",
)
# The result of a mutable op is its argument: none is returned.
_RENORM = Op(
    "embedding_renorm_(Tensor(a!) weight, Tensor indices, float max_norm, float norm_type=2.) -> ()",
    "embedding_renorm",
    "weight[]! indices[]",
    "max_norm:f norm_type:f",
)


def _adjoint(
    grad_output: Tensor, shape: Any, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool, sparse: bool
) -> Tensor:
    if not sparse:
        return _BACKWARD.with_gradient(grad_output, indices, shape[0], padding_idx, scale_grad_by_freq)

    def gradient(frame: Frame, grad: Tensor) -> tuple[Tensor]:
        (indices,) = frame.saved_tensors
        return (_sparse_gradient(grad, indices, shape[0], padding_idx, scale_grad_by_freq),)

    # Once, since torch's sparse tensors have no second derivative.
    gradients = once("embedding", gradient)(Frame(None, (indices,)), grad_output)
    y: Tensor = gradients[0]
    return y


def _adjoint_of_gradient(
    grad: Tensor, shape: Any, indices: Tensor, rows: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    left_out = (indices < 0) | (indices >= rows)
    if rows == 0:
        return grad.new_zeros(*indices.shape, grad.shape[-1])
    found = indices.masked_fill(left_out, 0)
    y = _FORWARD.with_gradient(grad, found, -1, False, False)
    if scale_grad_by_freq:
        ones = torch.ones(*indices.shape, 1, dtype=torch.float64, device=grad.device)
        counts = _FORWARD(_BACKWARD(ones, indices, rows, -1, False), found, -1, False, False)
        y = (y / counts).to(grad.dtype)
    return y.masked_fill((left_out | (indices == padding_idx))[..., None], 0)


def _sparse_gradient(
    grad_output: Tensor, indices: Tensor, rows: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    """Coalesced: ascending rows, each once, with the sums of the dense gradient."""
    if scale_grad_by_freq:
        raise RuntimeError("embedding: scale_grad_by_freq does not work with a sparse gradient")
    check_unmapped("embedding", grad_output, indices)
    found, position = distinct(indices, rows, padding_idx if padding_idx >= 0 else None)
    values = _BACKWARD(grad_output, position, found.numel(), -1, False)
    return coalesced(found, values, (rows, grad_output.shape[-1]))


_FORWARD.names["indices"] = "input"  # as torch.nn.functional.embedding calls it

_FORWARD.linear(_adjoint)
_BACKWARD.linear(_adjoint_of_gradient)


def _vmap_renorm(size: int, in_dims: Dims, weight: Tensor, indices: Tensor, *numbers: float) -> Any:
    """Each weight of a batch by its indices: a common one would be written for all of them."""
    if in_dims[0] is None:
        raise RuntimeError("embedding_renorm_: vmap over indices cannot write a weight that has no batch of its own")
    for i in range(size):
        of = indices if in_dims[1] is None else indices.select(in_dims[1], i)
        _RENORM.raw(weight.select(in_dims[0], i), of, *numbers)
    return None, None


def _vmap_forward(size: int, in_dims: Dims, weight: Tensor, indices: Tensor, *attributes: Any) -> Any:
    if in_dims[0] is not None:
        return None
    folded = front(indices, in_dims[1], size)
    return None if folded.dim() >= MAX_DIMS else (_FORWARD.raw(weight, folded, *attributes), 0)


def _refuse_derivatives(weight: Tensor) -> None:
    if wants_gradient(weight):
        raise RuntimeError("embedding_renorm_: weight requires a gradient; call it under torch.no_grad()")
    if has_tangent(weight):
        raise NotImplementedError("embedding_renorm_: weight has a tangent, and there is no derivative in forward mode")


def _autograd_renorm(keys: torch._C.DispatchKeySet, weight: Tensor, *rest: Any) -> None:
    _refuse_derivatives(weight)
    _RENORM.raw.redispatch(keys & torch._C._after_autograd_keyset, weight, *rest)


def _counted_renorm(keys: torch._C.DispatchKeySet, weight: Tensor, *rest: Any) -> None:
    check_dense("embedding_renorm_", weight=weight)  # torch's dispatcher takes None for a Tensor
    check_not_inference("embedding_renorm_: weight", weight)
    _RENORM.raw.redispatch(keys & torch._C._after_ADInplaceOrView_keyset, weight, *rest)
    torch.autograd.graph.increment_version(weight)


_FORWARD.batched, _RENORM.batched = _vmap_forward, _vmap_renorm
LIBRARY.impl("embedding_renorm_", _autograd_renorm, "Autograd", with_keyset=True)
LIBRARY.impl("embedding_renorm_", _counted_renorm, "ADInplaceOrView", with_keyset=True)


def padding_row(padding_idx: int | None, rows: int, op: str = "embedding") -> int:
    """The row that padding_idx names, counted from the front; -1 for None."""
    if padding_idx is None:
        return -1
    if type(padding_idx) is not int:
        check_kinds(op, "i", padding_idx=padding_idx)
        padding_idx = padding_idx if isinstance(padding_idx, torch.SymInt) else operator.index(padding_idx)
    if not -rows <= padding_idx < rows:
        want = f"want -{rows} to {rows - 1} for {rows} rows" if rows else "there are no rows"
        raise ArgumentError(f"{op}: padding_idx is {spell(padding_idx)}; {want}")
    return padding_idx + rows if padding_idx < 0 else padding_idx


def _plain_row(padding_idx: Any, weight: Any) -> int | None:
    """padding_row, where nothing has to be said or asked first; else None."""
    if type(padding_idx) is not int or type(weight) not in KINDS or weight.dim() != 2:
        return None
    rows = weight.size(0)
    return padding_row(padding_idx, rows) if -rows <= padding_idx < rows else None


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The rows of ``weight`` [V, D] that ``input`` (int32 or int64, up to 7 dimensions) names: input's shape,
    then D, in weight's dtype.

    As ``torch.nn.functional.embedding``. An index out of range is an error that names its position and value. The
    gradient is summed in float32 for 16-bit weights, in an order that depends on nothing but the indices;
    ``sparse=True`` gives it coalesced (and breaks the graph of compiled autograd: Dynamo takes no sparse tensors).
    ``max_norm`` scales the rows that are named down to that norm first, in place.

    >>> isobit.embedding(torch.tensor([2, 0]), torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])).tolist()
    [[4.0, 5.0], [0.0, 1.0]]
    """
    if max_norm is None and not is_dynamo_compiling():
        row = -1 if padding_idx is None else _plain_row(padding_idx, weight)
        y = NotImplemented if row is None else _direct(weight, input, row, scale_grad_by_freq, sparse, out)
        if y is not NotImplemented:
            return y
    if is_jagged(input):
        rest = weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
        return of_values("embedding", lambda values: embedding(values, *rest), input, out)
    check_dense("embedding", input=input, weight=weight)
    if weight.dim() != 2:
        raise ArgumentError(f"embedding: weight has shape {list(weight.shape)}; want two dimensions")
    if input.dim() >= MAX_DIMS:
        raise ArgumentError(f"embedding: input has {input.dim()} dimensions; want at most {MAX_DIMS - 1}")
    rows = weight.shape[0]
    if type(padding_idx) is int and padding_idx == rows == 0:  # which torch takes
        padding_idx = None
    args = (weight, input, padding_row(padding_idx, rows), scale_grad_by_freq, sparse)
    if max_norm is not None:
        renorm_before(_FORWARD, args, max_norm, norm_type, out)
    return _FORWARD.apply(*args) if out is None else write_out(_FORWARD, out, *args)


_direct = _FORWARD.direct


def _number(op: str, name: str, value: Any) -> float:
    try:
        if isinstance(value, (bool, str, bytes)):
            raise TypeError
        number = float(value)
    except Exception:  # whatever an object's __float__ raises
        raise TypeError(f"{op}: {name} must be a number, not {spell(value)}") from None
    if number != number:
        raise ArgumentError(f"{op}: {name} is NaN; want a number")
    return number


def embedding_backward(
    grad_output: Tensor,
    indices: Tensor,
    num_weights: int,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
) -> Tensor:
    """The gradient of an embedding's weight, [num_weights, D] in the dtype of grad_output, indices' shape and
    D: each row the sum of the rows of grad_output whose index names it, in ascending position; an index out
    of range counts for nothing. padding_idx: a row that gets none, below 0 for none, as in
    ``torch.ops.aten.embedding_dense_backward``. scale_grad_by_freq divides a sum by the number of its terms."""
    if isinstance(num_weights, int) and num_weights < 0:
        raise ArgumentError(f"embedding_backward: num_weights is {spell(num_weights)}; want at least 0")
    if type(grad_output) is Tensor and grad_output.dim() == 0:
        raise ArgumentError("embedding_backward: grad_output has shape []; want that of indices, then D")
    if type(padding_idx) is int and padding_idx < -1:
        padding_idx = -1
    return _BACKWARD.with_gradient(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)


def renorm_before(op: Op, args: tuple[Any, ...], max_norm: float, norm_type: float, out: Tensor | None = None) -> None:
    """Scales the rows that a lookup, whose weight and indices are its first arguments, is about to read; where the
    lookup would be refused, it is refused here, before weight is written."""
    norms = _number(op.name, "max_norm", max_norm), _number(op.name, "norm_type", norm_type)
    # Without gradients and tangents, as in torch. Not under no_grad: exported, it would be a region without a result.
    weight, *rest = (a.detach() if isinstance(a, Tensor) else a for a in args)
    if is_dynamo_compiling() or op.check(weight, *rest) is NotImplemented:
        op(weight[:, :0], *rest)  # on no columns: says what is wrong, or is a case for torch's dispatcher
    if out is not None:
        # Of no rows: where it is refused, it is before out is written, and where out is, before weight is.
        _renorm_within(op, weight.resolve_neg(), rest[0].new_empty(0), *norms)
        write_out(op, out, *args)
    _renorm_within(op, weight, rest[0], *norms)


def _renorm_within(op: Op, weight: Tensor, indices: Tensor, *norms: float) -> None:
    """_renorm, with errors that name the op that was called."""
    try:
        _renorm(weight, indices, *norms)
    except ValueError as error:
        text = str(error).replace(_RENORM.name, op.name, 1).replace("it is an output", "max_norm writes it")
        raise type(error)(text) from None


def embedding_renorm_(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Scales, in place, each row of weight [V, D] that indices (int32 or int64) names to a norm of at most
    max_norm: times ``max_norm / (norm + 1e-7)`` where ``norm > max_norm``; answers weight.

    As ``torch.embedding_renorm_``, to which weight is ``input``. norm_type is the p of the norm,
    ``sum(|x|^p)^(1/p)``, or inf, -inf or 0, as torch.linalg.vector_norm has it; with others than these, 1 and 2 the
    last bits depend on the processor, and CUDA takes 1, 2 and inf. An index out of range is an error that names its
    position and value."""
    check_dense("embedding_renorm_", weight=weight, indices=indices)
    _refuse_derivatives(weight)
    check_not_inference("embedding_renorm_: weight", weight)
    op = "embedding_renorm_"
    _renorm(weight, indices, _number(op, "max_norm", max_norm), _number(op, "norm_type", norm_type))
    return weight


def _renorm(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> None:
    if not is_dynamo_compiling():
        if weight.is_neg():  # torch's fallback for those wants an op that returns a tensor
            plain = weight.resolve_neg()
            _RENORM(plain, indices, max_norm, norm_type)
            weight.copy_(plain)
            return
        if _RENORM.fast(weight, indices, max_norm, norm_type) is None:
            torch.autograd.graph.increment_version(weight)  # as torch's dispatcher does
            return
    _RENORM.dispatch(weight, indices, max_norm, norm_type)
