"""From a model to one for quantization-aware training."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch

from .._checks import check_kinds
from .._errors import ArgumentError
from ._convolution import check_weight
from ._fake_quantizer import FakeQuantizer
from ._modules import check_module
from .embedding import Embedding, EmbeddingBag
from .fake_quantize import FakeQuantize
from .fake_quantized import FakeQuantizedLinear
from .fake_quantized_convolution import FakeQuantizedConv1d, FakeQuantizedConv2d, FakeQuantizedConv3d
from .fake_quantized_embedding import FakeQuantizedEmbedding, FakeQuantizedEmbeddingBag
from .linear import Linear
from .torchao_config import WANTED

Filter = Callable[[torch.nn.Module, str], bool]
_Types = tuple[type[torch.nn.Module], ...]

# What layers become. Subclasses do not: their forward is another, or, as in MultiheadAttention, is not called.
_LINEAR: _Types = (torch.nn.Linear, Linear)
_CONVOLUTIONS: tuple[tuple[_Types, Any], ...] = (
    ((torch.nn.Conv1d,), FakeQuantizedConv1d),
    ((torch.nn.Conv2d,), FakeQuantizedConv2d),
    ((torch.nn.Conv3d,), FakeQuantizedConv3d),
)
_EMBEDDING: _Types = (torch.nn.Embedding, Embedding)
_EMBEDDING_BAG: _Types = (torch.nn.EmbeddingBag, EmbeddingBag)


@torch.inference_mode(False)  # whose tensors are of no use when it has ended
@torch.no_grad()
def prepare(
    module: torch.nn.Module,
    weight: Any = None,
    activation: Any = None,
    *,
    embedding: Any = None,
    conv_weight: Any = None,
    conv_activation: Any = None,
    filter_fn: Filter | None = None,
    exact: bool = True,
    inplace: bool = False,
) -> torch.nn.Module:
    """The module for quantization-aware training: every torch.nn.Linear in it a FakeQuantizedLinear by
    ``weight`` and ``activation``, every torch.nn.Conv1d, Conv2d and Conv3d a FakeQuantizedConv1d, 2d or 3d by
    ``conv_weight`` and ``conv_activation``, every torch.nn.Embedding a FakeQuantizedEmbedding and every
    torch.nn.EmbeddingBag a FakeQuantizedEmbeddingBag by ``embedding``; what has None stays as it is, and so do transposed
    convolutions. ``convert`` is the way on to serving.

    Each of the five is a torchao IntxFakeQuantizeConfig or Float8FakeQuantizeConfig, a dict of their fields
    (see FakeQuantize.from_config; ``range_learning`` learns scales of the weight's shape), or what
    makes a fake-quantizer when called, for each layer one: ``LearnableFakeQuantize.with_args(...)``, torch.ao's
    ``QConfig(...).weight``, a function. ``filter_fn(layer, name)`` picks among these layers;
    without it, all are taken but those of a subclass other than isobit.nn's of the same name. Leave out layers that the
    model does not call, but whose weight it reads, as torchvision's Swin transformers do: nothing quantizes what it
    computes of them.

    A convolution's weight has one scale, or one for each output channel. Its fastest product, of integers, wants
    codes on both sides, best int8 with zero points of 0, and one scale for the activation: ``per_tensor``,
    ``is_dynamic`` or not. A BatchNorm after a convolution trains on, and is served, in float; fold it before
    (torch.nn.utils.fusion.fuse_conv_bn_eval, of the model in eval mode) to have one layer.

    A layer that becomes another stays the same object, with its parameters, hooks, device, dtype and mode, so
    that an optimizer, a tied weight and a layer used twice go on. Without ``inplace`` that is so in a copy of
    module. ``exact`` is FakeQuantizedLinear's and FakeQuantizedConv2d's.

    Raises, before anything is changed: TypeError for a subclass that filter_fn picks, and for what is no
    configuration; ValueError for a layer that is lazy, whose weight is no parameter of its own (weight_norm,
    pruning), whose forward was replaced, or that has max_norm, for other scales of a convolution's weight, and where no
    layer is found.

    >>> weight = {"dtype": torch.int8, "granularity": "per_channel"}
    >>> activation = {"dtype": torch.int8, "granularity": "per_token"}
    >>> model = isobit.nn.prepare(torch.nn.Sequential(torch.nn.Linear(4, 2)), weight, activation)
    >>> model(torch.randn(3, 4)).sum().backward()
    >>> isobit.nn.convert(model)[0].weight.codes.dtype
    torch.int8
    """
    check_module("prepare", module)
    check_kinds("prepare", "b", exact=exact, inplace=inplace)
    if filter_fn is not None and not callable(filter_fn):
        raise TypeError(f"prepare: filter_fn must be a function of (layer, name), not {type(filter_fn).__name__}")
    convolution = {"conv_weight": conv_weight, "conv_activation": conv_activation}
    kinds: list[tuple[_Types, Any, dict[str, Any]]] = [
        (_LINEAR, FakeQuantizedLinear, {"weight": weight, "activation": activation}),
        *((types, becomes, convolution) for types, becomes in _CONVOLUTIONS),
        (_EMBEDDING, FakeQuantizedEmbedding, {"embedding": embedding}),
        (_EMBEDDING_BAG, FakeQuantizedEmbeddingBag, {"embedding": embedding}),
    ]
    kinds = [kind for kind in kinds if any(given is not None for given in kind[2].values())]
    if not kinds:
        raise ArgumentError(
            "prepare: weight, activation, embedding, conv_weight and conv_activation are all None; want one of them"
        )
    found: list[tuple[str, Any, list[FakeQuantizer | None]]] = []
    for name, layer in module.named_modules():
        for types, becomes, by in kinds:
            if isinstance(layer, types) and _picked(layer, name, types, filter_fn):
                fakes = _fakes_of(layer, by)
                if by is convolution:
                    check_weight(f"prepare: {name!r}, a {type(layer).__name__}", fakes[0])
                found.append((name, becomes, fakes))
    if not found:
        every = tuple(kind for types, _, _ in kinds for kind in types)
        subclasses = [
            f"; {name!r} is of a subclass, {type(layer).__module__}.{type(layer).__qualname__}"
            for name, layer in module.named_modules()
            if filter_fn is None and isinstance(layer, every)
        ]
        raise ArgumentError(
            f"prepare: found no layer in {type(module).__name__} that what was given is for; weight and activation are "
            "for torch.nn.Linear, conv_weight and conv_activation are for torch.nn.Conv1d, Conv2d and Conv3d, embedding is "
            "for torch.nn.Embedding and torch.nn.EmbeddingBag" + "".join(subclasses[:1])
        )
    module = module if inplace else copy.deepcopy(module)
    layers: dict[str, Any] = dict(module.named_modules())
    for name, becomes, fakes in found:
        layer = layers[name]
        layer.__class__ = becomes
        layer._quantize_by(*fakes, *((exact,) if len(fakes) == 2 else ()))
    without_fast_path(module)
    return module


def _fakes_of(layer: torch.nn.Module, by: dict[str, Any]) -> list[FakeQuantizer | None]:
    parameter: torch.Tensor = layer.weight  # type: ignore[assignment]
    made = [_made(name, given, None if name.endswith("activation") else parameter.shape) for name, given in by.items()]
    return [None if by is None else by.to(parameter.device).train(layer.training) for by in made]


def _made(name: str, given: Any, shape: torch.Size | None) -> FakeQuantizer | None:
    """A fake-quantizer for a layer by this argument; shape: that of what it quantizes, where it is known."""
    if given is None:
        return None
    if isinstance(given, torch.nn.Module):
        raise TypeError(f"prepare: {name} is one {type(given).__name__}; want what makes one for each layer")
    if callable(given):
        made: Any = given()
    elif isinstance(given, Mapping) or hasattr(given, "dtype"):
        try:
            made = FakeQuantize.from_config(given, shape=shape)
        except (TypeError, ValueError) as error:  # which of three configurations it is
            raise type(error)(str(error).replace("from_config", f"prepare: {name}", 1)) from None
    else:
        raise TypeError(
            f"prepare: {name} is a {type(given).__name__}; want {WANTED}, a dict of their fields, or a constructor"
        )
    if not isinstance(made, FakeQuantizer):
        raise TypeError(f"prepare: {name} makes a {type(made).__name__}; want LearnableFakeQuantize or FakeQuantize")
    if shape is not None:
        made.expect(shape)
    return made


def _picked(layer: torch.nn.Module, name: str, types: _Types, filter_fn: Filter | None) -> bool:
    """Whether a layer is to become another; raises where it cannot."""
    lazy = isinstance(layer, torch.nn.modules.lazy.LazyModuleMixin)
    if filter_fn is None and type(layer) not in types and not lazy:
        return False
    if filter_fn is not None and not filter_fn(layer, name):
        return False
    where = f"prepare: {name!r}, a {type(layer).__name__},"
    if lazy:
        raise ArgumentError(f"{where} has no weight before its first batch; want prepare after it")
    if type(layer) not in types:
        raise TypeError(f"{where} is not itself a {types[0].__name__}; want filter_fn to leave it out")
    if layer._parameters.get("weight") is None:
        raise ArgumentError(f"{where} has no parameter of its own named weight; want it without weight_norm or pruning")
    if "forward" in vars(layer):
        raise ArgumentError(f"{where} has a forward of its own; want it without")
    if getattr(layer, "max_norm", None) is not None:
        raise ArgumentError(f"{where} has max_norm; want max_norm=None")
    return True


def without_fast_path(module: torch.nn.Module) -> None:
    """Has torch's encoder layers call their linear layers: in eval mode they read weights past them."""
    for layer in module.modules():
        if isinstance(layer, torch.nn.TransformerEncoderLayer):
            layer.activation_relu_or_gelu = 0
        elif isinstance(layer, torch.nn.TransformerEncoder):
            layer.use_nested_tensor = False
