"""What a state is held against before a module loads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ._scheme import Scheme


def saved_tensor(state_dict: dict[str, Any], key: str) -> torch.Tensor | None:
    """What a state has of this name; of what is no tensor torch says so later."""
    saved = state_dict.get(key)
    return saved if isinstance(saved, torch.Tensor) else None


def resize_for_loading(module: torch.nn.Module, state_dict: dict[str, Any], prefix: str, *names: str) -> None:
    """Gives buffers whose shapes come with the data those of what will be loaded, and its types."""
    for name in names:
        saved, buffer = saved_tensor(state_dict, prefix + name), getattr(module, name)
        if saved is not None and buffer is not None and (saved.shape, saved.dtype) != (buffer.shape, buffer.dtype):
            setattr(module, name, torch.empty_like(saved, device=buffer.device))


def words_for_codes(scheme: Scheme, shape: Sequence[int]) -> dict[str, Any]:
    """What decides which values the codes of a tensor of this shape stand for."""
    block = zip(scheme.grouping.block(shape), shape, strict=True)
    return {
        "dtype": str(scheme.dtype),
        "quant_min": scheme.quant_min,
        "quant_max": scheme.quant_max,
        "block_size": [extent if b is None else min(b, extent) for b, extent in block],
        "zero_point": not scheme.centred,
    }


def words_for_values(scheme: Scheme) -> dict[str, Any]:
    """What decides, beside scale and zero point, which values a tensor is fake-quantized to."""
    return {
        "code_dtype": str(scheme.code_dtype),
        "quant_min": scheme.quant_min,
        "quant_max": scheme.quant_max,
        "granularity": [scheme.grouping.name, scheme.grouping.where],
        "zero_point": not scheme.centred,
        "rounding": scheme.rounding,
    }


def save_words(destination: Any, prefix: str, words: dict[str, Any]) -> None:
    """Keeps the words with a state: in its metadata, where torch keeps versions. A key of get_extra_state's would be
    a tensor that is missing where programs compare names themselves, as safetensors.torch.load_model does."""
    metadata = getattr(destination, "_metadata", None)
    if metadata is not None:
        metadata.setdefault(prefix[:-1], {})["scheme"] = words


def refuse_other_codes(
    module: torch.nn.Module,
    state_dict: dict[str, Any],
    prefix: str,
    name: str,
    metadata: dict[str, Any],
    words: dict[str, Any],
    errors: list[str],
) -> None:
    """Adds to the errors of loading where a state, if it has words, has others than the module, or where the dtype of
    the buffer of this name is one that torch would convert codes from; what the module has then stays."""
    saved, buffer, said = saved_tensor(state_dict, prefix + name), getattr(module, name), metadata.get("scheme", {})
    other = [word for word in words if said.get(word, words[word]) != words[word]]
    if other:
        came, want = (", ".join(f"{word} {of[word]}" for word in other) for of in (said, words))
        errors.append(f"scheme mismatch for {prefix}{name}: the state has {came}; want {want}.")
    elif saved is not None and not _are_alike(saved.dtype, buffer.dtype):
        errors.append(f"dtype mismatch for {prefix}{name}: the state has {saved.dtype}; want {buffer.dtype}.")
    else:
        return
    for key, own in module._buffers.items():
        if prefix + key in state_dict:
            state_dict[prefix + key] = own


def _are_alike(a: torch.dtype, b: torch.dtype) -> bool:
    return a == b or (a.is_floating_point and b.is_floating_point)
