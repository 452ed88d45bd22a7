"""From a trained model to the one that serves."""

from __future__ import annotations

import copy

import torch

from ._fake_quantizer import check_module
from .prepare import without_fast_path


def convert(module: torch.nn.Module, inplace: bool = False) -> torch.nn.Module:
    """The module as it is served: in eval mode, with every part that has a ``served()`` form in that form:
    integer codes for weights, fixed scales and zero points for activations. Other parts stay as they are.

    The bits are those of ``module.eval()``. A part that several parents share is converted once. With
    ``inplace`` the parts of module itself are replaced; what comes back is another module where module has a
    served form. A converted module's state_dict loads into another converted one, trained or not."""
    check_module("convert", module)
    module = module if inplace else copy.deepcopy(module)
    without_fast_path(module)
    return _convert(module.eval(), {})


def _convert(module: torch.nn.Module, done: dict[torch.nn.Module, torch.nn.Module]) -> torch.nn.Module:
    if module in done:
        return done[module]
    served = getattr(module, "served", None)
    done[module] = served().eval() if callable(served) else module
    if done[module] is module:
        for name, child in module._modules.items():  # named_children leaves out what it has named
            if child is not None:
                module._modules[name] = _convert(child, done)
    return done[module]
