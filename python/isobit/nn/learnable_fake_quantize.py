"""Fake quantization by learned parameters."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._checks import check_kinds
from .._composite import Composite
from .._errors import ArgumentError
from .._known import is_empty
from .._transforms import is_watched
from ._buffers import assign, device_of, has_value, version_of, write
from ._fake_quantizer import FakeQuantizer, Parameters
from ._grouping import Grouping, check_shape
from ._modules import is_exporting
from ._scheme import Scheme, check_options, quotient, stored_dtype

_STARTS = ("lsq", "min_max")


class LearnableFakeQuantize(FakeQuantizer):
    """Fake quantization with a learned step size (LSQ). FakeQuantize takes its scale from an
    observer instead.

    One scale, or ``channels`` of them along ``ch_axis``; with ``shape``, that of what is quantized, one for
    each ``group_size`` elements along the last dimension, or for each block of ``block_size``. Until the
    first batch in training mode has set them, scales are 1; LSQ's ``2 * mean|x| / sqrt(quant_max)`` of that
    batch is the start, or, with ``start="min_max"``, what choose_qparams chooses for it, zero point included,
    with a scale of at least ``eps``. The zero point is learned where ``learn_zero_point``, else 0.
    ``learn_scale=False`` keeps the scale a buffer. dtype: what ``convert`` keeps codes as; int8, or uint8
    where int8 does not hold them, unless given. qscheme and is_dynamic, which torchao's PT2E passes, say what
    the other arguments do, and False.

    ``forward(x)``: x of any float dtype; the result is isobit's fake_quantize of x, of its shape and dtype.
    Gradients: of x the straight-through estimate, of scale and zero point (float32) those of LSQ, times
    ``1 / sqrt(n * quant_max)`` for n elements a scale. ``disable_observer()`` keeps a first batch from
    setting scales. Scales are parameters: keep them out of an optimizer's weight_decay, as one keeps biases and norms.
    Raises ValueError for a range that is empty or that dtype does not hold.

    In training on several processes each would start from its own batch: show the model one batch before
    DistributedDataParallel, which then sends the first process's scales to all, or fully_shard wraps it, which
    loses what a forward sets; the forward after it says so."""

    initialized: Tensor
    _start: tuple[Tensor, int | None, Tensor] | None = None  # a scale just set, its version, and a copy
    types_of_data = ("scale",)  # where it is not learned

    def __init__(
        self,
        quant_min: int = -128,
        quant_max: int = 127,
        *,
        channels: int | None = None,
        ch_axis: int = 0,
        group_size: int | None = None,
        block_size: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
        learn_scale: bool = True,
        learn_zero_point: bool = False,
        dtype: Any = None,
        rounding: str = "nearest",
        start: str = "lsq",
        eps: float = 0.0,
        qscheme: torch.qscheme | None = None,
        is_dynamic: bool = False,
        factory_kwargs: dict[str, Any] | None = None,
    ) -> None:
        owner = type(self).__name__
        device = device_of(owner, factory_kwargs)  # the type of scales is float32 always
        super().__init__(device)
        check_kinds(owner, "i", quant_min=quant_min, quant_max=quant_max, ch_axis=ch_axis)
        check_kinds(owner, "i?", channels=channels)
        check_kinds(owner, "b", learn_scale=learn_scale, learn_zero_point=learn_zero_point, is_dynamic=is_dynamic)
        check_shape(owner, shape)
        check_kinds(owner, "s", start=start)
        check_options(owner, eps, rounding)
        if channels is not None and channels < 1:
            raise ArgumentError(f"{owner}: channels is {channels}; want at least 1, or None")
        if start not in _STARTS:
            raise ArgumentError(f"{owner}: start is {start!r}; want one of {', '.join(_STARTS)}")
        if not quant_min < quant_max or quant_max < 1:
            raise ArgumentError(
                f"{owner}: want quant_min < quant_max and quant_max >= 1, not {quant_min} and {quant_max}"
            )
        grouping = Grouping.of(owner, None if channels is None else ch_axis, group_size, block_size)
        if shape is None and (group_size is not None or block_size is not None):
            raise ArgumentError(f"{owner}: group_size and block_size want shape, that of what is quantized")
        centred = not learn_zero_point and quant_min < 0
        if start == "min_max" and not centred and not learn_zero_point:
            raise ArgumentError(f"{owner}: start='min_max' of unsigned codes wants learn_zero_point=True")
        stored = stored_dtype(owner, quant_min, quant_max, dtype)
        self.scheme = Scheme(grouping, quant_min, quant_max, stored, centred, eps, rounding=rounding)
        self._check_given(learn_zero_point, qscheme, is_dynamic)
        self.channels = channels
        self.ch_axis = ch_axis
        self.dtype = stored if dtype is None else dtype
        self.start = start
        extents = [1]
        if channels is not None:
            extents = [channels]
        elif shape is not None:
            extents = grouping.parameter_shape(shape) or [1]
        scale = torch.ones(extents, dtype=torch.float32, device=device)
        if learn_scale:
            self.scale = torch.nn.Parameter(scale)
        else:
            self.register_buffer("scale", scale)
        self.zero_point = torch.nn.Parameter(torch.zeros_like(scale)) if learn_zero_point else None
        # Not a bool: averages of models subtract buffers.
        self.register_buffer("initialized", torch.tensor(0, dtype=torch.uint8, device=device))
        self._on["initialized"] = False

    def _check_given(self, learn_zero_point: bool, qscheme: torch.qscheme | None, is_dynamic: bool) -> None:
        """Raises where an argument says otherwise than the scheme that the others make."""
        owner = type(self).__name__
        if self.scheme.code_dtype is not None and learn_zero_point:
            raise ArgumentError(f"{owner}: 8-bit float codes have a scale only; want learn_zero_point=False")
        if qscheme not in (None, self.qscheme):
            raise ArgumentError(
                f"{owner}: qscheme is {qscheme}; want {self.qscheme}, what channels and learn_zero_point make"
            )
        if is_dynamic:
            raise ArgumentError(
                f"{owner}: is_dynamic is True; want False, as parameters that are learned belong to no batch"
            )

    @torch.no_grad()
    def reset_parameters(self) -> None:
        super().reset_parameters()
        self.scale.fill_(1)
        if self.zero_point is not None:
            self.zero_point.zero_()
        self._switch("initialized", False)

    @property
    def qscheme(self) -> torch.qscheme:
        """torch's name of the scheme, which torch.ao's convert asks for."""
        where = "channel" if self.scheme.grouping.name == "per_channel" else "tensor"
        name = f"per_{where}_{'symmetric' if self.scheme.symmetric else 'affine'}"
        scheme: torch.qscheme = getattr(torch, name)
        return scheme

    @property
    def rounding(self) -> str:
        return self.scheme.rounding

    @torch.no_grad()
    def set_scale(self, x: Tensor) -> None:
        """Sets the scales, and with ``start="min_max"`` the zero points, from a batch. Sums are isobit's, so that
        the start does not depend on threads."""
        came, want = self.scheme.grouping.parameter_shape(x.shape), list(self.scale.shape)
        if came and came != want:
            raise ArgumentError(
                f"LearnableFakeQuantize: an input of shape {list(x.shape)} has scales of shape {came}; want {want}"
            )
        zero_point = None
        if self.start == "min_max":
            scale, zero_point = self.scheme.choose(x.detach())
        else:
            scale = self._usual_scale(x.detach())
        of = torch._C._functorch
        if of.is_batchedtensor(scale) or (not torch.compiler.is_compiling() and of.is_gradtrackingtensor(scale)):
            raise RuntimeError(
                "LearnableFakeQuantize: vmap and torch.func's transforms cannot set scale; show it a batch before, or "
                "disable_observer()"
            )
        start = {"scale": scale.reshape(self.scale.shape)}
        if self.zero_point is not None and zero_point is not None:
            start["zero_point"] = zero_point.reshape(self.zero_point.shape)
        empty = None
        if is_empty(x) is None:  # compiled code computes a start of each batch: the first that has elements counts
            empty = torch.full((), x.numel(), device=x.device) == 0
            stays = empty | self.initialized.bool()
            start = {name: torch.where(stays, getattr(self, name), value) for name, value in start.items()}
        for name, value in start.items():
            assign(self, name, value)
        if empty is not None:
            write(self.initialized, torch.where(empty, self.initialized, 1))
            return
        self._switch("initialized", True)
        if not torch.compiler.is_compiling() and has_value(self.scale):
            self._start = self.scale, version_of(self.scale), self.scale.detach().clone()

    def _usual_scale(self, x: Tensor) -> Tensor:
        """LSQ's: twice the mean size of x over the root of the largest code."""
        size = x.abs().to(torch.promote_types(torch.promote_types(x.dtype, self.scale.dtype), torch.float32))
        sums, one = self.scheme.grouping.sums, torch.ones_like(size)
        total = sums(size, one)
        del size
        one = one.double()  # counts are whole, and rounded once
        mean = total / sums(one, one).to(total.dtype)
        scale = quotient(2 * mean, math.sqrt(self.quant_max))
        return torch.where(scale > 0, scale, torch.ones_like(scale))

    def _check_start(self) -> None:
        """That what the first batch set was not lost: fully_shard lends parameters for a forward, fills them again
        for the next, and does not count that as a change."""
        last, self._start = self._start, None
        if last is None:  # another thread looks
            return
        written, version, start = last
        if self.scale is not written or version_of(written) != version:
            return
        if written.dtype != start.dtype or written.device != start.device:
            return
        scale = written.detach()
        as_made = (scale - 1).abs() < (scale - start).abs()  # a step of the optimizer aside
        if as_made.any() and (as_made | (start == 1)).all():
            raise RuntimeError(
                "LearnableFakeQuantize: the scale that the first batch set is lost, as fully_shard does not keep what a forward "
                "writes; show the model a batch before fully_shard wraps it"
            )

    def _warn_unset(self) -> None:
        if self._started() or not has_value(self.initialized):
            return
        if bool((self.scale == 1).all()):
            warnings.warn("LearnableFakeQuantize has seen nothing yet: its scale is 1", stacklevel=3)

    def parameters_for(self, x: Tensor) -> Parameters:
        if self.training and self.is_observing() and not self._started() and not is_empty(x):
            _warn_replicas(x)
            self.set_scale(x)
        elif not torch.compiler.is_compiling():
            if self._start is not None and not is_watched():
                self._check_start()
            elif x.numel() > 0:
                self._warn_unset()
        n = x.numel() // self.scale.numel()
        if torch.compiler.is_compiling():
            if not self.training and is_exporting():  # without gradients
                return Parameters(self.scale, self.zero_point)
            if self.scale.dtype == torch.float32:
                return self._with_scaled_gradients(n, torch.promote_types(x.dtype, torch.float32))
        scale: Tensor = self.scale
        zero_point: Tensor | None = self.zero_point
        if torch.is_grad_enabled() and not self._on["initialized"]:
            # Autograd keeps them, and the first batch writes over them.
            scale, zero_point = scale.clone(), None if zero_point is None else zero_point.clone()
        return Parameters(scale, zero_point, 1 / math.sqrt(max(n * self.quant_max, 1)))

    def _with_scaled_gradients(self, n: int, kind: torch.dtype) -> Parameters:
        """The parameters for n elements a scale, with the factor in the graph: as an op's float it is a constant
        of the graph, which each size of a batch would compile anew. kind: what the op multiplies in."""
        factor = torch.full((), n * self.quant_max, dtype=torch.float64, device=self.scale.device).clamp(min=1)
        factor = (1 / factor.sqrt()).to(kind)
        zero_point = None if self.zero_point is None else _scaled(self.zero_point.to(kind), factor)
        return Parameters(_scaled(self.scale.to(kind), factor), zero_point)

    def _started(self) -> bool:
        """Whether scales were set: looked into until they were, whoever did it."""
        if not torch.compiler.is_compiling() and not self._on["initialized"]:
            self._seen.pop("initialized", None)
        return self._is_on("initialized")

    def served(self) -> FakeQuantizer:
        from .served import ServedFakeQuantize

        self._warn_unset()
        if not self.is_faking() or type(self).parameters_for is not LearnableFakeQuantize.parameters_for:
            return self
        return ServedFakeQuantize(self.scheme, self.scale, self.zero_point)

    def extra_repr(self) -> str:
        return str(self.scheme)


def _keep_factor(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])


# A parameter whose gradient is multiplied by a factor.
_scaled = Composite(
    "with_scaled_gradient(Tensor parameter, Tensor factor) -> Tensor",
    lambda parameter, factor: parameter.clone(),
    _keep_factor,
    lambda ctx, grad: (grad * ctx.saved_tensors[0], None),
)


def _warn_replicas(x: Tensor) -> None:
    """Says that the scales of replicas come apart, unless it is a parameter that sets them, which all have alike."""
    if torch.compiler.is_compiling() or isinstance(x, torch.nn.Parameter):
        return
    replica = getattr(torch.nn.parallel.DistributedDataParallel, "_active_ddp_module", None)  # private
    if replica is not None and replica.process_group.size() > 1:
        warnings.warn(
            "LearnableFakeQuantize: its scale starts from this process's batch, and stays another than that of the other "
            "processes; show the model a batch before DistributedDataParallel wraps it",
            stacklevel=4,
        )
