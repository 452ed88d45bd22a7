"""From a trained model to the one that serves."""

from __future__ import annotations

import copy
from typing import Any

import torch

from .._checks import check_kinds
from .._errors import ArgumentError
from ._hooks import has_forward_hooks, keep_hooks
from ._linear import Operand
from ._modules import check_module
from .prepare import without_fast_path


@torch.inference_mode(False)  # whose tensors are of no use when it has ended
@torch.no_grad()
def convert(module: torch.nn.Module, inplace: bool = False) -> torch.nn.Module:
    """The module as it is served: in eval mode, with every part that has a ``served()`` form in that form:
    integer codes for weights, fixed scales and zero points for activations. Other parts stay as they are.

    The bits are those of ``module.eval()``. A part that several parents share is converted once. With
    ``inplace`` the parts of module itself are replaced; what comes back is another module where module has a
    served form, and keeps the forward hooks. A converted module's state_dict loads into another converted one,
    trained or not. RuntimeError, as for a wrong shape, where its codes have another dtype, or, as far as the state has
    metadata (torch.save and torch.load keep it), stand for other values: other bounds, groups or float8.

    Convolutions become a ServedFakeQuantizedConv each; a BatchNorm stays one, as it was trained.

    Raises, before a part is replaced: ValueError for a part whose weight a hook computes anew for each forward (pruning,
    the old weight_norm), or changes its values after they were fake-quantized (such a forward hook is called once more
    to see), or has codes of more than 8 bits; TypeError for a part with a forward that its served form would not have,
    that torch.compile wraps, or that fully_shard split.

    C, C++ and Go serve the tensors of its state_dict by problems (OPS.md), here those of a layer of M rows of input:

    =========  ============================================================================================
    product    problems, and from where their arguments are
    =========  ============================================================================================
    integer    dynamic_quantize_per_token x=f32[M,K] q=s8 qmin=-128 qmax=127, or, where the activation has a fixed scale,
               quantize_per_tensor x=f32[M,K] zero_point=none q=s8 qmin=-128 qmax=127, with that scale for each row; then
               quantized_linear x=s8[M,K] weight=s8[N,K]: weight.codes, weight.scale, bias
    integer_   quantize_per_tensor x=f32[M,K] q=u8 qmin=0 qmax=255, by activation_fake_quantizer.scale and
    groups     zero_point, or dynamic_quantize_per_token x=f32[M,K] q=s8 zero_point=i32 qmin=-128 qmax=127
               symmetric=false; then quantized_linear_per_group x=u8[M,K] x_zero_point=i32 weight=s4[N,K] group_size=G
               with scale and zero point for each row: weight.codes, weight.scale and zero_point as [N, ceil(K/G)], G
               being K where a row has one scale
    codes      weight_only_linear x=f32[M,K] weight=s4[N,K] group_size=G: weight.codes and so on
    of a       the same (integer products per tensor and without zero points; else codes of fake_quantize_per_tensor
    Served...  x=f32[M,K] qmin=0 qmax=255), of rows that the caller copies from quantized x with 0 around: for each
    Conv       position of each image the places of the kernel in order, each with its C / groups channels together; K is
               their product. Groups are calls of their own, each with its channels of x and its N / groups rows of
               weight.codes, weight.scale and bias; of codes there are such calls without groups only
    embedding  weight_only_embedding_bag weight=s4[V,D] indices=i64[M,1] group_size=G mode=sum: weight.codes and so on
    =========  ============================================================================================

    A layer prints its product and its bounds. ``ISOBIT_VERBOSE=1`` has a process that loads the model and calls it once
    print every problem that it runs."""
    check_module("convert", module)
    check_kinds("convert", "b", inplace=inplace)
    for part in module.modules():
        if hasattr(type(part), "served"):
            _check_part(part)
    module = module if inplace else copy.deepcopy(module)
    changes: list[tuple[dict[str, torch.nn.Module | None], str, torch.nn.Module]] = []
    modes = {part: part.training for part in module.modules()}
    try:
        result = _convert(module.eval(), {}, changes)
    except BaseException:
        module.train(modes[module])  # which may do more than set modes
        for part, training in modes.items():
            part.training = training
        raise
    for members, name, becomes in changes:
        members[name] = becomes
    without_fast_path(module)
    return result


def _check_part(part: torch.nn.Module) -> None:
    """Raises where a part's served form would not compute what it does."""
    owner = type(part).__name__
    # A forward of a subclass, beside the served form of its base.
    forward, served = (next(i for i, c in enumerate(type(part).__mro__) if n in vars(c)) for n in ("forward", "served"))
    if forward < served or "forward" in vars(part):
        raise TypeError(f"convert: a {owner} has a forward of its own; want a served() of its own, too")
    if "weight" in vars(part):
        raise ArgumentError(f"convert: the weight of a {owner} is no parameter; want it without weight_norm or pruning")
    for name, parameter in part.named_parameters():
        if hasattr(parameter, "full_tensor"):
            raise TypeError(
                f"convert: the {name} of a {owner} is a DTensor; want the model without fully_shard, with the state "
                "that get_model_state_dict gives with full_state_dict=True"
            )
    if _is_changed(part):
        raise ArgumentError(
            f"convert: a forward hook of a {owner}'s weight_fake_quantizer changes what comes of the weight; want it removed"
        )


def _is_changed(layer: torch.nn.Module) -> bool:
    """Whether hooks make other values of a layer's weight than its codes stand for."""
    by: Any = getattr(layer, "weight_fake_quantizer", None)
    if by is None or not has_forward_hooks(by):
        return False
    passed = Operand.of(copy.deepcopy(by).eval(), layer.weight)  # type: ignore[arg-type]
    return passed.tensor is not layer.weight or by.is_faking() != (passed.scheme is not None)


def _convert(
    module: torch.nn.Module, done: dict[torch.nn.Module, torch.nn.Module], changes: list[Any]
) -> torch.nn.Module:
    """What a module becomes; changes: what is to be replaced in it for that, once nothing is wrong elsewhere."""
    if module in done:
        return done[module]
    # Its class's: a wrapper answers for what it wraps.
    done[module] = _served(module) if hasattr(type(module), "served") else module
    if done[module] is module:
        for name, child in module._modules.items():  # named_children leaves out what it has named
            if child is None:
                continue
            becomes = _convert(child, done, changes)
            if name == "_orig_mod" and becomes is not child:  # torch.compile's wrapper has bound its call
                owner = type(module).__name__
                raise TypeError(f"convert: a {owner} runs the layer it was made of; want convert before torch.compile")
            changes.append((module._modules, name, becomes))
    return done[module]


def _served(module: Any) -> torch.nn.Module:
    """The served form of a part, with its hooks."""
    result: torch.nn.Module = module.served().eval()
    if result is not module:
        keep_hooks(module, result)
    return result
