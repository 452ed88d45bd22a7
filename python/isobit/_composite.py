"""Calls of other ops, with a gradient of their own, as ops of torch: what graphs have of autograd.Function, torch keeps
in no cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.compiler import is_compiling

from ._autograd import eager_function, elsewhere, function_named
from ._gradient import no_forward_mode
from ._op import LIBRARY


class Composite:
    """forward(*args), with the gradient of the other three, which are as in torch.autograd.Function."""

    def __init__(
        self,
        schema: str,
        forward: Callable[..., Any],
        setup_context: Callable[..., None],
        backward: Callable[..., Any],
        jvp: Callable[..., Any] | None = None,
    ) -> None:
        name = schema.partition("(")[0]
        rules = {"setup_context": setup_context, "backward": backward, "jvp": jvp or no_forward_mode(f"isobit::{name}")}
        self._eager = eager_function(name, takes_tuple=False, fast=forward, otherwise=elsewhere, **rules)
        self._transformed = function_named(name, forward=forward, generate_vmap_rule=True, **rules).apply
        LIBRARY.define(schema, tags=torch.Tag.pt2_compliant_tag)
        LIBRARY.impl(name, self._eager, "CompositeImplicitAutograd")
        LIBRARY.impl(name, self._transformed, "FuncTorchDynamicLayerFrontMode")
        self._raw = getattr(torch.ops.isobit, name).default

    def __call__(self, *args: Any) -> Any:
        if is_compiling():  # torch.export, too, whose programs can be trained
            return self._raw(*args)
        active = torch._C._are_functorch_transforms_active()
        return (self._transformed if active else self._eager)(*args)
