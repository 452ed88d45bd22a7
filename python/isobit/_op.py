"""An op: one plan, as a torch op and as a direct call.

Calling an `Op` computes. Where nothing needs torch's dispatcher (no gradient is
wanted, nothing is traced or compiled, the tensors are plain) the call goes
straight to the extension; otherwise through torch.ops.isobit, which has CPU and
CUDA implementations, a fake one, vmap and autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.compiler import is_dynamo_compiling

from . import _C
from ._autograd import eager_function, elsewhere, function_named, is_transformed, refuse, within_transforms
from ._checks import NAMES, check_device
from ._errors import IndexOutOfRange
from ._explain import INDEX, check_attributes, explain, renamed
from ._gradient import DETACHED, no_forward_mode, none_for_none, once, save_for_jvp
from ._load import PACKED
from ._memory import at_even_addresses
from ._numbers import scalar_value
from ._signature import Signature, is_symbolic
from ._transforms import forward_levels, has_tangent, is_functionalized, is_traced
from ._vmap import register as register_vmap

OPS: dict[str, Op] = {}


class _Library(torch.library.Library):
    """Has torch's autograd kernels refuse tangents, which they leave out, and not run within torch.func."""

    def impl(self, op_name: str, fn: Callable[..., Any], dispatch_key: str = "", **options: Any) -> None:
        kernel = fn
        if dispatch_key == "Autograd":

            def kernel(keyset: Any, *args: Any) -> Any:
                op = OPS[op_name]
                y = op.at_once(args)
                if y is not NotImplemented:
                    return y
                op.refuse_tangents(args)
                if op.transform_kernel and is_transformed(args):
                    return op.transform_kernel(*op.complete(args), keyset)
                return fn(keyset, *args)

        super().impl(op_name, kernel, dispatch_key, **options)


LIBRARY = _Library("isobit", "DEF")


class _Whole(tuple[Any, ...]):
    """A list of ints that torch.func does not take apart: it would miss the tangents of the items."""


class Op:
    """schema: torch's, without the namespace; its arguments are the signature's inputs, then its attributes."""

    def __init__(self, schema: str, plan: str, inputs: str, attributes: str, *outputs: str) -> None:
        self.name = schema.partition("(")[0]
        self.plan = plan
        self.signature = Signature.parse(inputs, attributes, outputs)
        # Six ways to call the extension: _C_op.c says how they differ.
        self.run, self.fast, self.direct, self.transposed, self.check, self.infer = _C.define(
            self.name, plan, *self.signature.for_extension()
        )
        self.transform_kernel: Callable[..., Any] | None = None  # the autograd kernel within torch.func
        self.batched: Callable[..., Any] | None = None  # see _vmap.register
        self.is_linear = False  # in its first argument, by which alone it has derivatives: forward mode may be nested
        self.codes = self.signature.codes()
        self.numbers = [i for i, item in enumerate(self.signature.inputs) if item.number]
        self.optional_outputs = any(o.wanted_by >= 0 for o in self.signature.outputs)
        LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides))
        self.raw = getattr(torch.ops.isobit, self.name).default
        self.names = self._names()
        self.no_tangents = no_forward_mode(f"isobit::{self.name}")
        self.defaults = tuple(a.default_value for a in self.raw._schema.arguments)
        for key in ("CPU", "CUDA"):
            LIBRARY.impl(self.name, self._kernel(), key)
        torch.library.register_fake(f"isobit::{self.name}", self._fake(), lib=LIBRARY)
        register_vmap(self, LIBRARY)
        OPS[self.name] = self

    def refuse_tangents(self, args: tuple[Any, ...]) -> None:
        if torch._C._is_fwd_grad_enabled() and has_tangent(*args):
            self.no_tangents()

    def _kernel(self) -> Callable[..., Any]:
        def kernel(*args: Any) -> Any:
            return self._in_full(self.checked_run(*self.complete(args)), args)

        return kernel

    def at_once(self, args: tuple[Any, ...]) -> Any:
        """What the kernel below autograd's gives, where nothing between the two has anything to do: torch's way from one
        to the other takes longer than many an op. Else NotImplemented."""
        if self.raw._schema.is_mutable or self._is_folded(args):
            return NotImplemented
        y = self.fast(*self.complete(args))
        return y if y is NotImplemented else self._in_full(y, args)

    def _is_folded(self, args: tuple[Any, ...]) -> bool:
        """Whether a direct call takes tensors of more dimensions than the op has, which to torch it has not."""
        inputs = self.signature.inputs
        if not inputs[0].rows:
            return False
        x, other = (a.dim() for item, a in zip(inputs, args, strict=False) if item.shaped)
        lists = (a.dim() for item, a in zip(inputs, args, strict=False) if item.per_row and a is not None)
        return x != other or other > 3 or any(dims != 1 for dims in lists)

    def _in_full(self, results: Any, args: tuple[Any, ...]) -> Any:
        """Results as torch ops have them, always as many: one that was not wanted is empty."""
        if not self.optional_outputs:
            return results
        return tuple(args[0].new_empty(0, dtype=torch.float32) if y is None else y for y in results)

    def checked_run(self, *args: Any) -> Any:
        """run, with errors that name arguments as the schema does (quant_min, not qmin) and dtypes as torch does."""
        args = self._packed_in_rows(args)
        try:
            return self._renaming(self.run, args)
        except ValueError as error:
            if "not a multiple of its element size" not in str(error):
                raise
        return at_even_addresses(partial(self._renaming, self.run), self.signature.inputs, args)

    def _renaming(self, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """call(*args), with the names in its errors replaced."""
        try:
            return call(*args)
        except (TypeError, ValueError, RuntimeError) as error:
            self.check_devices(args)
            names = {**NAMES, **self.names}
            if len(args) > len(self.defaults):  # out=, of ops with one output
                names[self.signature.outputs[0].name] = "out"
            text = renamed(str(error), names)
            if text == str(error):
                raise
            raise (IndexOutOfRange if INDEX.search(str(error)) else type(error))(text) from None

    def _packed_in_rows(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Packed codes are read a row at a time: bytes that do not follow one another are copied."""
        i, dtype = self.codes
        if i < 0 or args[dtype] not in PACKED or args[i].dim() == 0 or args[i].stride(-1) == 1:
            return args
        return (*args[:i], args[i].contiguous(), *args[i + 1 :])

    def _names(self) -> dict[str, str]:
        s = self.signature
        names = [item.name for item in s.inputs] + [item.name for item in s.attributes]
        named = dict(zip(names, (a.name for a in self.raw._schema.arguments), strict=True))
        for o in s.outputs:  # which the caller knows by out= or by the argument that says its dtype
            named.setdefault(o.name, named.get(s.dtype_argument(o), o.name))
        return {**named, self.plan: self.name}

    def _fake(self) -> Callable[..., Any]:
        def fake(*args: Any) -> Any:
            self.check_devices(args)
            args = self.complete(args)
            if not is_symbolic(args):  # else a check would add guards, or has no numbers to go by
                explain(self, args)
                self._renaming(self.infer, args)
            try:
                outputs = self.signature.allocate(args)
            except (AttributeError, IndexError, ValueError, ZeroDivisionError):
                # There are no outputs for these symbols: what is wrong is said of their numbers.
                explain(self, args)
                self._renaming(self.infer, args)
                raise
            return outputs[0] if len(outputs) == 1 else tuple(outputs) or None

        return fake

    def check_devices(self, args: tuple[Any, ...]) -> None:
        """Raises where an argument is not where the first one is."""
        wanted = self.signature.inputs
        inputs = zip(wanted, args[: len(wanted)], strict=False)  # which Dynamo of PyTorch 2.8 takes for strict
        tensors = [(self.names[item.name], a) for item, a in inputs if isinstance(a, torch.Tensor)]
        for name, a in tensors[1:]:
            check_device(self.name, name, a, tensors[0][0], tensors[0][1].device)

    def complete(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments with those that torch's dispatcher leaves out: trailing ones that equal their defaults."""
        return args + self.defaults[len(args) :]

    def __call__(self, *args: Any) -> Any:
        if not is_dynamo_compiling():
            y = self.fast(*args)
            if y is not NotImplemented:
                return y
        return self.dispatch(*args)

    def dispatch(self, *args: Any) -> Any:
        """The call through torch's dispatcher."""
        if is_dynamo_compiling():
            args = self.with_tensors(args)
            y = self.raw(*args)
        else:
            check_attributes(self, args)
            try:
                args = self.with_tensors(args)
                y = self.raw(*args)
            except Exception:
                explain(self, args)
                raise
        if not self.optional_outputs:
            return y
        attributes = args[len(self.signature.inputs) :]
        return tuple(t if o.wanted(attributes) else None for t, o in zip(y, self.signature.outputs, strict=True))

    def with_tensors(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments with tensors for numbers, on the device of the first, filled there: a graph may be captured."""
        for i in self.numbers:
            item = self.signature.inputs[i]
            number = scalar_value(f"{self.name}: {self.names[item.name]}", item.number, args[i])
            if isinstance(number, (int, float)):
                # float64 and int64, as the direct call has it
                dtype = torch.float64 if isinstance(number, float) else torch.int64
                tensor = torch.full((), number, dtype=dtype, device=args[0].device)
                args = (*args[:i], tensor, *args[i + 1 :])
        return args

    def differentiable(
        self,
        setup_context: Callable[..., None],
        backward: Callable[..., Any],
        jvp: Callable[..., Any] | None = None,
        second: Callable[..., Any] | None = None,
        third: Callable[..., Any] | None = None,
        again: bool = False,
    ) -> None:
        """Gives the op a gradient: to `apply`, for eager code and torch.func, and to torch.ops' own.

        setup_context(ctx, inputs, output), backward(ctx, *grads) and jvp(ctx, *tangents) are as in
        torch.autograd.Function; backward gives a gradient for each argument of the schema. second, third: see `once`;
        again: backward consists of what can be differentiated itself."""

        backward_rule = none_for_none(backward) if again else once(self.name, backward, second, third)
        jvp_rule = jvp or self.no_tangents
        if jvp is not None:
            self.no_tangents = no_forward_mode(f"torch.ops.isobit.{self.name}", f"isobit.{self.name} has")
        signature, rules = self.signature, (setup_context, backward_rule, jvp_rule)
        count, takes_tuple = len(signature.inputs), bool(signature.attributes)
        eager, direct = (
            eager_function(self.name, takes_tuple, self.fast, otherwise, *rules)
            for otherwise in (self.dispatch, elsewhere)
        )
        self.apply_eager = (lambda *args: eager(*args[:count], args)) if takes_tuple else eager
        _C.set_function(self.direct, direct)
        # torch.func needs this form, whose call costs 15 us more.
        self.transform_function = function_named(
            self.name,
            forward=lambda *args: self(*args),
            setup_context=setup_context,
            backward=backward_rule,
            jvp=jvp_rule,
            generate_vmap_rule=True,
        )
        self._register(none_for_none(backward), setup_context)

    def _register(self, backward: Callable[..., Any], setup_context: Callable[..., None] | None = None) -> None:
        """Gives torch.ops' op a gradient."""
        self.transform_kernel = within_transforms(self.raw, backward, setup_context)
        torch.library.register_autograd(f"isobit::{self.name}", backward, setup_context=setup_context, lib=LIBRARY)

    def linear(self, adjoint: Callable[..., torch.Tensor]) -> None:
        """Gives an op that is linear in its first argument derivatives of every order, in forward mode, too.

        adjoint(grad, shape of the first argument, *other arguments) is what backward computes."""
        count = len(self.signature.inputs)

        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            tensors = inputs[1:count]
            ctx.shape, ctx.attributes = inputs[0].shape, inputs[count:]
            ctx.save_for_backward(*tensors)
            save_for_jvp(ctx, *tensors)

        def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
            # Nothing saved is nothing freed: as in torch, such a backward may run again.
            others = (*(ctx.saved_tensors if count > 1 else ()), *ctx.attributes)
            return adjoint(grad, ctx.shape, *others), *[None] * len(others)

        def jvp(ctx: Any, tangent: torch.Tensor, *_: Any) -> Any:
            return self.apply(tangent, *ctx.saved_tensors, *ctx.attributes)

        self.differentiable(setup_context, backward, jvp, again=True)
        self.is_linear = True

    def with_gradient(self, *args: Any) -> Any:
        """The call as a step of another op's gradient, which may be differentiated, too."""
        y = NotImplemented if is_dynamo_compiling() else self.direct(*args)
        return self.apply(*args) if y is NotImplemented else y

    def apply(self, *args: Any) -> Any:
        """The call where a gradient may be wanted."""
        if is_dynamo_compiling() or is_traced():
            return self.dispatch(*args)
        try:
            if torch._C._are_functorch_transforms_active():
                if is_functionalized():  # which autograd.Function does not take
                    return self.dispatch(*args)
                if not self.is_linear and forward_levels() > 1:
                    raise NotImplementedError(
                        f"isobit::{self.name} has one derivative in forward mode: a second one wants reverse mode, jacrev(jacrev(f))"
                    )
                return self.transform_function.apply(*(_Whole(a) if isinstance(a, (list, tuple)) else a for a in args))
            return self.apply_eager(*args)
        except Exception:
            explain(self, args)
            raise

    def not_differentiable(self, message: str = DETACHED) -> None:
        """Makes differentiating the op an error, instead of torch's silence."""
        self._register(refuse(message.format(self.name)))

    def constant(self) -> None:
        """Makes the results constants for autograd: choices, which nothing is differentiated by."""

        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.mark_non_differentiable(*output)

        self._register(refuse(f"isobit::{self.name} has no derivative"), setup_context)
