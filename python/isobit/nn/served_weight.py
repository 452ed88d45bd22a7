"""The weight of a layer that serves: its codes, with what they stand for."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._errors import ArgumentError
from .._load import PACKED
from .._transforms import is_plain
from ..ops._granularity import FLOAT8
from ..ops.embedding import padding_row
from ..ops.weight_only_embedding_bag import bags_of_rows, weight_only_embedding_bag
from ._buffers import FollowsData, member, version_of
from ._fake_quantizer import FakeQuantizer
from ._linear import in_groups
from ._modules import is_exporting
from ._scheme import Scheme, code_type
from ._states import refuse_other_codes, resize_for_loading, save_words, saved_tensor, words_for_codes


def copied(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach().clone()


def scheme_of(by: FakeQuantizer | None) -> Scheme | None:
    return by.scheme if by is not None and by.is_faking() else None


def _unpacked(codes: Tensor, low: int, columns: int) -> Tensor:
    """int8 codes of bytes that hold two, the first in the lower half; low: the least code of their type."""
    halves = torch.stack([codes & 15, codes >> 4], -1).flatten(-2)[..., :columns].to(torch.int8)
    return (halves ^ -low) + low


_FEW_GROUPS = 16  # of a row
_SHORT_GROUP = 3  # columns: of as many, kernels sum any groups of a row at once


class ServedWeight(FollowsData):
    """A weight as codes, with their scale and zero point, or as it is where it is not quantized. Called, it gives the
    values that they stand for; ``shape``, ``dtype`` and ``device`` are theirs."""

    codes: Tensor
    scale: Tensor | None
    zero_point: Tensor | None
    types_of_data = ("scale",)
    _judged: tuple[Tensor | None, int | None, bool] = (None, None, False)  # scales, their version, what _are_sums found

    def __init__(self, weight: Tensor, by: FakeQuantizer | None, stored_as: torch.dtype | None = None) -> None:
        super().__init__()
        self.dtype = weight.dtype
        self.shape = self.matrix = weight.shape
        self.scheme = scheme_of(by)
        codes, scale, zero_point = weight.detach(), None, None
        if by is None or self.scheme is None:
            codes = codes.clone(memory_format=torch.contiguous_format)
        else:
            self.scheme = self.scheme.with_dtype(stored_as)
            if self.scheme.dtype is None:
                bounds = f"{self.scheme.quant_min} to {self.scheme.quant_max}"
                raise ArgumentError(f"convert: no type holds codes of {bounds}; want 8 bits")
            scale, zero_point, _ = by.parameters_for(weight)
            zero_point = self.scheme.integer_zero_point(zero_point)
            codes = self.scheme.quantize(codes, scale, zero_point).contiguous()  # new, in huge pages
            if codes.dtype in FLOAT8:  # kept as bytes: torch neither pickles nor gathers them, and half() converts them
                codes = codes.view(torch.uint8)
        self.register_buffer("codes", codes)  # read by rows
        self.register_buffer("scale", copied(scale))
        self.register_buffer("zero_point", copied(zero_point))

    @property
    def device(self) -> torch.device:
        return self.codes.device

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), keywords: Any = None) -> Any:
        name = getattr(function, "__name__", function)
        raise TypeError(
            f"{name}: a {cls.__name__} is codes; want the layer called, or weight(), what they stand for, or a "
            "filter_fn for prepare that leaves out layers whose weight the model reads"
        )

    def __matmul__(self, other: Any) -> Any:
        return self.__torch_function__(torch.matmul, ())

    __rmatmul__ = __matmul__

    def _apply(self, fn: Any, recurse: bool = True) -> ServedWeight:
        self.dtype = fn(torch.empty(0, dtype=self.dtype)).dtype  # bfloat16() and its like
        self._judged = ServedWeight._judged  # by what is normal in it
        return super()._apply(fn, recurse)

    def _words(self) -> dict[str, Any]:
        return {} if self.scheme is None else words_for_codes(self.scheme, self.matrix)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        save_words(destination, prefix, self._words())

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, metadata: Any, *args: Any) -> None:
        refuse_other_codes(self, state_dict, prefix, "codes", metadata, self._words(), args[-1])
        saved = saved_tensor(state_dict, prefix + "scale")
        if saved is not None and self.scale is not None and saved.shape == self.scale.shape:
            resize_for_loading(self, state_dict, prefix, "scale")  # its type may be another before a first batch
        super()._load_from_state_dict(state_dict, prefix, metadata, *args)

    def exportable(self, codes: Tensor) -> tuple[Scheme, Tensor]:
        """Codes, or rows of them, with their scheme. torch can export 4-bit types, but not save them: there,
        and only there, they are unpacked."""
        assert self.scheme is not None
        if self.scheme.dtype not in PACKED or not is_exporting():
            return self.scheme, codes
        low = code_type("convert", self.scheme.dtype)[1]
        return self.scheme.with_dtype(torch.int8), _unpacked(codes, low, self.matrix[-1])

    def forward(self) -> Tensor:
        """The weight as its codes stand for it."""
        return self.values(self.dtype)

    def values(self, dtype: torch.dtype) -> Tensor:
        """The same of another type; a weight that is not quantized stays as it is."""
        return self.rows_of(dtype)

    def rows_of(self, dtype: torch.dtype) -> Tensor:
        """The same as a matrix, as codes lie."""
        if self.scale is None:
            return self.codes
        scheme, codes = self.exportable(self.codes)
        return self._dequantize(scheme, codes, self.scale, self.zero_point, dtype)

    def _dequantize(
        self, scheme: Scheme, codes: Tensor, scale: Tensor, zero_point: Tensor | None, dtype: torch.dtype
    ) -> Tensor:
        codes = codes if scheme.code_dtype is None else codes.view(scheme.code_dtype)
        return scheme.dequantize(codes, scale, zero_point, dtype, self.matrix[-1])

    def rows(self, indices: Tensor) -> Tensor:
        """Some rows of a weight [V, D]: only they are dequantized."""
        if is_plain(indices) and self._are_sums():
            bags = self.bags(indices.reshape(-1, 1), None, "sum", None, False, None)
            return bags if indices.dim() == 1 else bags.reshape(*indices.shape, self.shape[1])
        at = indices.reshape(-1)
        codes = self.codes.index_select(0, at)
        if self.scheme is not None and self.scale is not None:
            grouping, which = self.scheme.grouping.of_rows(at)
            scale, zero_point = self.scale, self.zero_point
            if which is not None:
                scale = scale.index_select(0, which)
                zero_point = None if zero_point is None else zero_point.index_select(0, which)
            scheme, codes = self.exportable(codes)
            codes = self._dequantize(scheme.with_grouping(grouping), codes, scale, zero_point, self.dtype)
        return codes.reshape(*indices.shape, self.shape[-1])

    def _are_sums(self) -> bool:
        """Whether a bag of one row has that row's bits, and takes less time: where no element is -0, which no sum is, as
        where scales are above 0, and so large that codes stand for normal numbers or 0, and where kernels take a
        row's groups at once, or these are few."""
        codes, scale = member(self, "codes"), member(self, "scale")
        if type(codes) is not Tensor or not codes.is_cpu or scale is None or not self.has_groups():
            return False
        version = version_of(scale)
        if version is None:
            return False
        of, seen, are = self._judged
        if of is not scale or seen != version:
            few = scale.numel() <= _FEW_GROUPS * self.shape[0]
            few = few or scale.numel() * _SHORT_GROUP <= self.shape.numel()
            are = few and bool((scale.double() >= torch.finfo(self.dtype).tiny).all())
            self._judged = scale, version, are
        return are

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_judged": ServedWeight._judged}  # a copy's versions begin anew

    def has_groups(self) -> bool:
        """Whether kernels sum rows of its codes as they are: of integers, in groups along each row, not into f64."""
        scheme = self.scheme
        if self.dtype == torch.float64 or scheme is None or (scheme.dtype in PACKED and is_exporting()):
            return False
        return scheme.code_dtype is None and scheme.grouping.shares_along_rows()

    def bags(
        self,
        input: Tensor,
        offsets: Tensor | None,
        mode: str,
        per_sample_weights: Tensor | None,
        include_last_offset: bool,
        padding_idx: int | None,
    ) -> Tensor:
        """embedding_bag of a weight [V, D]: only rows that are named are dequantized."""
        if not self.has_groups():
            row = padding_row(padding_idx, self.shape[0])
            return bags_of_rows(self.rows, input, offsets, mode, per_sample_weights, include_last_offset, row)
        assert self.scheme is not None
        codes, *parameters = (member(self, name) for name in ("codes", "scale", "zero_point"))
        size, scale, zero_point = in_groups(self.scheme, self.shape[0], self.shape[1], *parameters)
        return weight_only_embedding_bag(
            input,
            codes,
            scale,
            zero_point,
            offsets,
            group_size=size,
            mode=mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
            dtype=self.scheme.dtype,
            output_dtype=self.dtype,
            last_dim=self.shape[1],
        )

    def extra_repr(self) -> str:
        return f"{self.scheme}"
