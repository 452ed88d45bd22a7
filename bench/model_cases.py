"""Small models, a training step or a call to serve of each, with PyTorch alone and with isobit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import cycle
from typing import Any

import isobit
import torch
import torch.ao.nn.qat as qat
import torch.nn.functional as F
from convolution_models import INT8, fake_quantized, in_static_int8, network, with_observers
from isobit import nn as inn
from torch import Tensor, nn
from torch.ao import quantization as ao
from torch.ao.quantization._learnable_fake_quantize import _LearnableFakeQuantize

Step = Callable[[], object]
Make = Callable[[bool], Step]  # with isobit, or without
COMPILED = False  # both sides by torch.compile


def built(model: nn.Module) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(model) if COMPILED else model


def training(model: nn.Module, inputs: tuple[Any, ...], loss: Callable[[Tensor], Tensor], *optimizers: Any) -> Step:
    """A step: gradients to zero, forward, backward, the optimizer."""
    model.train()
    optimizers = optimizers or (torch.optim.SGD(model.parameters(), 1e-3),)
    forward = built(model)

    def step() -> None:
        for o in optimizers:
            o.zero_grad()
        loss(forward(*inputs)).backward()
        for o in optimizers:
            o.step()

    return step


def squares(y: Tensor) -> Tensor:
    return y.square().mean()


# ---- quantization-aware training


class Block(nn.Module):
    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.second(x))))


class FakeLinear(nn.Linear):
    """PyTorch's: a linear layer of fake-quantized input and weight."""

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.of_input(x), self.of_weight(self.weight), self.bias)


def learned(observer: Any, **more: Any) -> nn.Module:
    fake = _LearnableFakeQuantize(observer, use_grad_scaling=True, **INT8, **more)
    fake.enable_param_learning()
    return fake


def transformer(ours: bool, batch: int = 8, tokens: int = 128) -> Step:
    model = nn.Sequential(Block(), Block())
    if ours:
        weight = {"dtype": torch.int8, "granularity": "per_channel", "range_learning": True, "is_dynamic": False}
        model = inn.prepare(model, weight=weight, activation=inn.LearnableFakeQuantize)
    else:
        for layer in list(model.modules()):
            if isinstance(layer, nn.Linear):
                layer.__class__ = FakeLinear
                rows = {"qscheme": torch.per_channel_symmetric, "ch_axis": 0, "channel_len": layer.out_features}
                layer.of_weight = learned(ao.MovingAveragePerChannelMinMaxObserver, **rows)
                layer.of_input = learned(ao.MovingAverageMinMaxObserver, qscheme=torch.per_tensor_symmetric)
    return training(model, (torch.randn(batch, tokens, 256),), squares)


def convolutions(ours: bool) -> Step:
    return training(with_observers(inn if ours else ao), (torch.randn(32, 3, 64, 64),), squares)


ROWS = {"dtype": torch.int8, "granularity": "per_channel", "is_dynamic": False}
WHOLE = {"dtype": torch.int8, "granularity": "per_tensor", "is_dynamic": False}


def trained_network(beside: str = "float") -> Make:
    """beside: PyTorch's step in floats, or with fake-quantizers of the same codes."""

    def make(ours: bool) -> Step:
        model: nn.Module = network()
        if ours:
            model = inn.prepare(model, conv_weight=ROWS, conv_activation=WHOLE)
        elif beside == "fake":
            model = fake_quantized(model)
        return training(model, (torch.randn(8, 3, 128, 128),), squares)

    return make


# ---- embeddings


def zipf(rows: int, *shape: int) -> Tensor:
    return (rows ** torch.rand(shape)).long().clamp(0, rows - 1)


class Recommender(nn.Module):
    """As DLRM: bags of rows of tables, and a dense part, that meet in products."""

    def __init__(self, bag: Any, sizes: list[int], width: int, **options: Any) -> None:
        super().__init__()
        self.tables = nn.ModuleList([bag(rows, width, mode="sum", **options) for rows in sizes])
        self.dense = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, width), nn.ReLU())
        count = len(sizes) + 1
        self.top = nn.Sequential(nn.Linear(width + count**2, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, x: Tensor, indices: list[Tensor], offsets: list[Tensor]) -> Tensor:
        dense = self.dense(x)
        bags = [table(i, o) for table, i, o in zip(self.tables, indices, offsets, strict=True)]
        all_ = torch.stack([dense, *bags], 1)
        return self.top(torch.cat([dense, (all_ @ all_.transpose(1, 2)).flatten(1)], 1))


def recommender(optimizer: Any, quantized: bool = False, **options: Any) -> Make:
    """quantized: tables that are fake-quantized in 8 bits, a scale and a zero point for each row, chosen at each step."""

    def make(ours: bool, batch: int = 2048) -> Step:
        sizes = [100000, 50000, 20000, 10000, 5000, 2000, 1000, 500, 100, 50, 20, 10, 3] * 2
        bag = (inn if ours else nn).EmbeddingBag
        if quantized and not ours:
            bag = partial(qat.EmbeddingBag, qconfig=ao.default_embedding_qat_qconfig)
        model: Any = Recommender(bag, sizes, 32, **options)
        if quantized and ours:
            rows = {"dtype": torch.uint8, "granularity": "per_channel", "is_symmetric": False}
            model = inn.prepare(model, embedding=rows)
        counts = [torch.randint(1, 6, (batch,)) if rows > 100 else torch.ones(batch).long() for rows in sizes]
        indices = [zipf(rows, int(n.sum())) for rows, n in zip(sizes, counts, strict=True)]
        offsets = [n.cumsum(0) - n for n in counts]
        rest = torch.optim.SGD([*model.dense.parameters(), *model.top.parameters()], 1e-3)
        return training(
            model, (torch.randn(batch, 13), indices, offsets), squares, optimizer(model.tables.parameters()), rest
        )

    return make


class Pairs(nn.Module):
    """As word2vec: words, each beside one of its context and some that are not."""

    def __init__(self, embedding: Any, **options: Any) -> None:
        super().__init__()
        self.words, self.context = (embedding(50000, 256, padding_idx=0, **options) for _ in range(2))

    def forward(self, words: Tensor, others: Tensor) -> Tensor:
        return torch.einsum("bd,bkd->bk", self.words(words), self.context(others))


def pairs(optimizer: Any, **options: Any) -> Make:
    def make(ours: bool, batch: int = 4096) -> Step:
        model = Pairs((inn if ours else nn).Embedding, **options)
        inputs = zipf(50000, batch), zipf(50000, batch, 6)
        return training(model, inputs, squares, optimizer(list(model.parameters())))

    return make


# ---- images


def warped(batch: int, channels: int, size: int, mode: str, stride: int) -> Make:
    """A spatial transformer before a classifier; PyTorch's is the same module with its functions."""

    def make(ours: bool) -> Step:
        finds = [nn.Conv2d(channels, 8, 7, stride), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten()]
        last = nn.Linear(128, 6)
        nn.init.zeros_(last.weight)
        last.bias.data = inn.SpatialTransformer.identity() + 0.05
        first = inn.SpatialTransformer(nn.Sequential(*finds, last), mode=mode)
        if not ours:
            first = Theirs(first.localisation, mode)
        rest = [nn.Conv2d(channels, 16, 5, stride), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)]
        return training(nn.Sequential(first, *rest), (torch.randn(batch, channels, size, size),), squares)

    return make


class Theirs(nn.Module):
    def __init__(self, localisation: nn.Module, mode: str) -> None:
        super().__init__()
        self.localisation, self.mode = localisation, mode

    def forward(self, x: Tensor) -> Tensor:
        grid = F.affine_grid(self.localisation(x).reshape(-1, 2, 3), list(x.shape), align_corners=False)
        return F.grid_sample(x, grid, self.mode, align_corners=False)


class Flow(nn.Module):
    """Where each pixel, or voxel, of a comes from, by a small network that compares it with b."""

    def __init__(self, ours: bool, channels: int, rank: int) -> None:
        super().__init__()
        conv = nn.Conv2d if rank == 2 else nn.Conv3d
        self.net = nn.Sequential(conv(2 * channels, 8, 3, 4, 1), nn.ReLU(), conv(8, rank, 3, 1, 1))
        self.sample = isobit.grid_sample if ours else F.grid_sample
        self.grid = isobit.affine_grid if ours else F.affine_grid

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        rank = a.dim() - 2
        flow = F.interpolate(self.net(torch.cat([a, b], 1)), size=a.shape[2:])
        grid = self.grid(torch.eye(rank, rank + 1)[None], list(a.shape), align_corners=True)
        return self.sample(a, grid + flow.movedim(1, -1), padding_mode="border", align_corners=True) - b


def flow(*shape: int) -> Make:
    return lambda ours: training(
        Flow(ours, shape[1], len(shape) - 2), (torch.randn(shape), torch.randn(shape)), squares
    )


# ---- serving


def served(batch: int, beside: str = "float", **by: Any) -> Make:
    def make(ours: bool) -> Step:
        model: nn.Module = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).eval()
        if ours:
            model = inn.convert(inn.prepare(model, **by))
        elif beside == "int8":
            model = ao.quantize_dynamic(model, {nn.Linear}, torch.qint8)
        x, forward = torch.randn(batch, 1024), built(model)
        return torch.no_grad()(lambda: forward(x))

    return make


def served_network(batch: int, beside: str = "float") -> Make:
    """beside: PyTorch's floats, or its static int8, whose values stay codes between layers."""

    def make(ours: bool) -> Step:
        model: nn.Module = network().eval()
        x = torch.randn(batch, 3, 128, 128)
        if ours:
            model = inn.prepare(model, conv_weight=ROWS, conv_activation=WHOLE)
            model.train()(x)  # its scales
            model = inn.convert(model.eval())
        elif beside == "int8":
            model = in_static_int8(model, x)
        forward = built(model)
        return torch.no_grad()(lambda: forward(x))

    return make


def served_bags(rows: int, dtype: torch.dtype, beside: str = "float") -> Make:
    """512 bags of 32 rows of a table, 64 columns: other rows in each of 32 calls, or caches would hold them all."""

    def make(ours: bool) -> Step:
        table: nn.Module = nn.EmbeddingBag(rows, 64, mode="sum").eval()
        calls = cycle(torch.randint(rows, (32, 512, 32)))
        if beside == "codes" and not ours:
            kind = {torch.int8: "byte", torch.int4: "4bit"}[dtype]
            codes = getattr(torch.ops.quantized, f"embedding_bag_{kind}_prepack")(table.weight.detach())
            bags = getattr(torch.ops.quantized, f"embedding_bag_{kind}_rowwise_offsets")
            offsets = torch.arange(0, 512 * 32, 32)
            return torch.no_grad()(lambda: bags(codes, next(calls).flatten(), offsets))
        if ours:
            table = inn.convert(inn.prepare(table, embedding={"dtype": dtype, "granularity": "per_channel"}))
        forward = built(table)
        return torch.no_grad()(lambda: forward(next(calls)))

    return make


PER_TOKEN = {
    "weight": {"dtype": torch.int8, "granularity": "per_channel"},
    "activation": {"dtype": torch.int8, "granularity": "per_token"},
}
INT4 = {"weight": {"dtype": torch.int4, "group_size": 128}}


def models() -> Iterable[tuple[str, Make]]:
    sgd, adagrad, adam = torch.optim.SGD, torch.optim.Adagrad, torch.optim.SparseAdam
    yield "transformer of two blocks, 8x128 tokens of 256, LSQ of weights and inputs in int8", transformer
    yield "4 convolutions, 32x3x64x64, observers", convolutions
    yield "9 convolutions, 8x3x128x128: int8 beside f32", trained_network()
    yield "int8 beside PyTorch's fake-quantizers", trained_network("fake")
    yield "DLRM, 26 tables, batches of 2048: SGD", recommender(sgd)
    yield "sparse gradients, SGD", recommender(sgd, sparse=True)
    yield "sparse gradients, Adagrad", recommender(adagrad, sparse=True)
    yield "fake-quantized tables, SGD", recommender(sgd, quantized=True)
    yield "word2vec, 50000x256, 4096 words: SGD", pairs(sgd)
    yield "sparse gradients, SparseAdam", pairs(adam, sparse=True)
    yield "max_norm, SGD", pairs(sgd, max_norm=1.0)
    yield "spatial transformer: 256x1x28x28", warped(256, 1, 28, "bilinear", 1)
    yield "8x3x256x256", warped(8, 3, 256, "bilinear", 4)
    yield "8x3x256x256, bicubic", warped(8, 3, 256, "bicubic", 4)
    yield "a flow for each pixel of 1x3x720x1280", flow(1, 3, 720, 1280)
    yield "a flow for each voxel of 1x1x64x96x96", flow(1, 1, 64, 96, 96)
    for batch in (1, 16, 128):
        yield f"served, 1024-4096-1024, {batch} rows: int8 beside f32", served(batch, **PER_TOKEN)
        yield "int8 beside PyTorch's dynamic int8", served(batch, "int8", **PER_TOKEN)
        yield "int4 weights beside f32", served(batch, **INT4)
    for batch in (1, 8):
        yield f"served, 9 convolutions, {batch}x3x128x128: int8 beside f32", served_network(batch)
        yield "int8 beside PyTorch's static int8", served_network(batch, "int8")
    for rows in (100000, 3000000):
        for dtype in (torch.int8, torch.int4):
            name = str(dtype).removeprefix("torch.")
            yield f"served bags, {rows} rows of 64: {name} beside f32", served_bags(rows, dtype)
            yield f"bags of {name} beside PyTorch's", served_bags(rows, dtype, "codes")
