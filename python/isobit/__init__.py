"""Tensor operations with one result: the same inputs give the same bits in Python, C, C++ and Go,
on every instruction set and for every number of threads.

Where PyTorch has a function, its isobit twin has the same name, arguments and order. All take dense
tensors of up to 8 dimensions, on the CPU or a CUDA device. An argument of a wrong kind is a TypeError,
one of a wrong value, dtype or shape an ArgumentError: a ValueError, and a RuntimeError as torch raises (an index or
axis out of range an IndexError, too); both name it, and nothing is written. The formulas are those of NUMERICS.md in the repository. Importing isobit
loads no library: the first call that computes does, or asks for or sets what is the library's."""

from __future__ import annotations

from inspect import isfunction as _isfunction

from torch.fx import wrap as _wrap

from . import _load

_load.set_up()

from . import nn  # noqa: E402
from ._errors import ArgumentError  # noqa: E402
from ._memory import get_huge_pages, set_huge_pages  # noqa: E402
from ._threads import get_num_threads, set_num_threads  # noqa: E402
from ._version import __version__  # noqa: E402
from .ops.affine_grid import affine_grid, affine_grid_backward  # noqa: E402
from .ops.dequantize import (  # noqa: E402
    dequantize_per_channel,
    dequantize_per_channel_backward,
    dequantize_per_channel_group,
    dequantize_per_channel_group_backward,
    dequantize_per_tensor,
    dequantize_per_tensor_backward,
    dequantize_per_token,
    dequantize_per_token_backward,
)
from .ops.embedding import embedding, embedding_backward, embedding_renorm_  # noqa: E402
from .ops.embedding_bag import embedding_bag  # noqa: E402
from .ops.fake_quantize import (  # noqa: E402
    fake_quantize_per_channel_affine,
    fake_quantize_per_channel_affine_backward,
    fake_quantize_per_channel_group_affine,
    fake_quantize_per_channel_group_affine_backward,
    fake_quantize_per_tensor_affine,
    fake_quantize_per_tensor_affine_backward,
    fake_quantize_per_token_affine,
    fake_quantize_per_token_affine_backward,
)
from .ops.grid_sample import grid_sample, grid_sample_backward, grid_sample_double_backward  # noqa: E402
from .ops.linear import linear  # noqa: E402
from .ops.matmul import matmul  # noqa: E402
from .ops.per_block import (  # noqa: E402
    dequantize_per_block,
    dequantize_per_block_backward,
    fake_quantize_per_block_affine,
    fake_quantize_per_block_affine_backward,
    quantize_per_block,
    quantize_per_block_backward,
)
from .ops.qparams import (  # noqa: E402
    choose_qparams_per_block,
    choose_qparams_per_channel,
    choose_qparams_per_channel_group,
    choose_qparams_per_tensor,
    choose_qparams_per_token,
    choose_qparams_per_token_asymmetric,
)
from .ops.quantize import (  # noqa: E402
    quantize_per_channel,
    quantize_per_channel_backward,
    quantize_per_channel_group,
    quantize_per_channel_group_backward,
    quantize_per_tensor,
    quantize_per_tensor_backward,
    quantize_per_token,
    quantize_per_token_backward,
)
from .ops.quantize_dynamic import (  # noqa: E402
    quantize_per_block_dynamic,
    quantize_per_channel_dynamic,
    quantize_per_channel_group_dynamic,
    quantize_per_tensor_dynamic,
    quantize_per_token_dynamic,
)
from .ops.quantized_linear import quantized_linear, quantized_linear_codes  # noqa: E402
from .ops.weight_only_embedding_bag import weight_only_embedding_bag  # noqa: E402
from .ops.weight_only_linear import weight_only_linear  # noqa: E402
from .plan import Plan, info, support  # noqa: E402

__all__ = [
    "ArgumentError",
    "Plan",
    "__version__",
    "affine_grid",
    "affine_grid_backward",
    "choose_qparams_per_block",
    "choose_qparams_per_channel",
    "choose_qparams_per_channel_group",
    "choose_qparams_per_tensor",
    "choose_qparams_per_token",
    "choose_qparams_per_token_asymmetric",
    "dequantize_per_block",
    "dequantize_per_block_backward",
    "dequantize_per_channel",
    "dequantize_per_channel_backward",
    "dequantize_per_channel_group",
    "dequantize_per_channel_group_backward",
    "dequantize_per_tensor",
    "dequantize_per_tensor_backward",
    "dequantize_per_token",
    "dequantize_per_token_backward",
    "embedding",
    "embedding_backward",
    "embedding_bag",
    "embedding_renorm_",
    "fake_quantize_per_block_affine",
    "fake_quantize_per_block_affine_backward",
    "fake_quantize_per_channel_affine",
    "fake_quantize_per_channel_affine_backward",
    "fake_quantize_per_channel_group_affine",
    "fake_quantize_per_channel_group_affine_backward",
    "fake_quantize_per_tensor_affine",
    "fake_quantize_per_tensor_affine_backward",
    "fake_quantize_per_token_affine",
    "fake_quantize_per_token_affine_backward",
    "get_huge_pages",
    "get_num_threads",
    "grid_sample",
    "grid_sample_backward",
    "grid_sample_double_backward",
    "info",
    "linear",
    "matmul",
    "nn",
    "quantize_per_block",
    "quantize_per_block_backward",
    "quantize_per_block_dynamic",
    "quantize_per_channel",
    "quantize_per_channel_backward",
    "quantize_per_channel_dynamic",
    "quantize_per_channel_group",
    "quantize_per_channel_group_backward",
    "quantize_per_channel_group_dynamic",
    "quantize_per_tensor",
    "quantize_per_tensor_backward",
    "quantize_per_tensor_dynamic",
    "quantize_per_token",
    "quantize_per_token_backward",
    "quantize_per_token_dynamic",
    "quantized_linear",
    "quantized_linear_codes",
    "set_huge_pages",
    "set_num_threads",
    "support",
    "weight_only_embedding_bag",
    "weight_only_linear",
]

for _name in __all__:
    if _isfunction(globals()[_name]):
        _wrap(_name)  # torch.fx.symbolic_trace records the call
