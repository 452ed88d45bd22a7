"""embedding_bag: bit for bit by the reference, and beside torch's in values, gradients and errors."""

import itertools

import isobit
import numpy as np
import pytest
import torch
from isobit.nn import EmbeddingBag
from kit import FLOATS, NAMES, assert_same, draw, expect, layouts, spell
from torch.autograd import grad, gradcheck
from torch.func import vmap
from torch.nn import functional

ROWS, WIDTH = 13, 6
MODES = ("sum", "mean", "max", "weighted")
# Indices' shape, offsets, include_last_offset.
BAGS = {
    "rows": ((4, 5), None, False),
    "offsets": ((20,), [0, 0, 7, 8, 19], False),
    "ends": ((20,), [0, 3, 3, 15], True),  # the last five are in no bag
    "whole": ((20,), [0, 3, 3, 20], True),
    "none": ((0,), [], False),
    "empty": ((3, 0), None, False),
}


def bag(kind, index=torch.int64):
    """input, and the keywords of its bags."""
    shape, offsets, last = BAGS[kind]
    indices = torch.randint(0, ROWS, shape, dtype=index, generator=torch.Generator().manual_seed(1))
    if offsets is None:
        return indices, {}
    return indices, {"offsets": torch.tensor(offsets, dtype=index), "include_last_offset": last}


def text(indices, kind, mode, dtype, padding):
    """The keys of a problem that say the same."""
    shape, offsets, last = BAGS[kind]
    words = [f"indices={spell(indices, True)}", f"mode={'sum' if mode == 'weighted' else mode}"]
    if offsets is not None:
        words += [f"offsets={NAMES[indices.dtype]}[{len(offsets)}]", f"include_last_offset={str(last).lower()}"]
    words += [f"per_sample_weights={NAMES[dtype]}"] if mode == "weighted" else []
    return " ".join([*words, f"padding_idx={padding}"])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
@pytest.mark.parametrize("kind", BAGS)
def test_values_and_gradients(kind, dtype, mode):
    for index, padding in itertools.product((torch.int32, torch.int64), (None, 3)):
        indices, keywords = bag(kind, index)
        weight = draw(ROWS, WIDTH, dtype=dtype, special=mode == "max")
        factors = draw(*indices.shape, dtype=dtype, seed=2) if mode == "weighted" else None
        words = text(indices, kind, mode, dtype, -1 if padding is None else padding)
        noted = " chosen=i64" if mode == "max" else ""
        offsets = keywords.get("offsets")
        y, chosen = expect(
            f"embedding_bag weight={spell(weight, True)} {words}{noted}", weight, indices, offsets, factors
        )
        keywords |= {"padding_idx": padding, "mode": "sum" if mode == "weighted" else mode}
        for _, w in layouts(weight):
            assert_same(isobit.embedding_bag(indices, w, per_sample_weights=factors, **keywords), y)
        dy = draw(*y.shape, dtype=dtype, seed=4)
        for frequency in {False, mode != "max"}:
            leaves = [t.clone().requires_grad_() for t in (weight, factors) if t is not None]
            got = isobit.embedding_bag(
                indices, leaves[0], per_sample_weights=leaves[1] if factors is not None else None,
                scale_grad_by_freq=frequency, **keywords,
            )  # fmt: skip
            assert_same(got, y)
            more = f"{words}{noted} scale_grad_by_freq={str(frequency).lower()} grad_weight={spell(weight, True)}"
            problem = f"embedding_bag_backward grad_output={spell(dy, True)} {more}"
            want = [expect(problem, dy, indices, offsets, factors, chosen)]
            if factors is not None:
                bags = " ".join(w for w in words.split() if not w.startswith(("mode", "per_sample")))
                problem = f"embedding_bag_per_sample_weights_backward grad_output={spell(dy, True)} {bags}"
                want.append(expect(f"{problem} weight={spell(weight, True)}", dy, weight, indices, offsets))
            assert_same(grad(got, leaves, dy), want)


def counts_terms():
    """Whether torch divides a row's gradient by the number of its terms; 2.8 to 2.11 took other rows' numbers."""
    weight = torch.ones(2, 1, requires_grad=True)
    functional.embedding_bag(torch.tensor([[0, 0, 1]]), weight, mode="sum", scale_grad_by_freq=True).backward()
    return weight.grad.tolist() == [[1], [1]]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["rows", "offsets", "whole", "none"])  # torch's last bag goes on to the end in float64
def test_as_torchs(kind, mode):
    for padding, frequency in itertools.product((None, 3, -2), {False, mode != "max" and counts_terms()}):
        indices, keywords = bag(kind)
        weight = draw(ROWS, WIDTH, dtype=torch.float64).requires_grad_()
        factors = draw(*indices.shape, dtype=torch.float64, seed=2).requires_grad_() if mode == "weighted" else None
        keywords |= {"padding_idx": padding, "mode": "sum" if factors is not None else mode}
        keywords |= {"per_sample_weights": factors, "scale_grad_by_freq": frequency}
        ours = isobit.embedding_bag(indices, weight, **keywords)
        torchs = functional.embedding_bag(indices, weight, **keywords)
        torch.testing.assert_close(ours, torchs)
        leaves, dy = [t for t in (weight, factors) if t is not None], torch.randn_like(ours)
        torch.testing.assert_close(grad(ours, leaves, dy), grad(torchs, leaves, dy))


@pytest.mark.parametrize("mode", ("sum", "mean", "weighted"))
@pytest.mark.parametrize("padding", (None, 0, 3, -2))
def test_sparse_gradient(mode, padding):
    indices, keywords = bag("offsets")
    weight, dy = draw(ROWS, WIDTH).requires_grad_(), draw(5, WIDTH, seed=3)
    factors = draw(20, seed=2) if mode == "weighted" else None
    keywords |= {"padding_idx": padding, "mode": "sum" if mode == "weighted" else mode, "per_sample_weights": factors}
    (dense,) = grad(isobit.embedding_bag(indices, weight, **keywords), weight, dy)
    (sparse,) = grad(isobit.embedding_bag(indices, weight, sparse=True, **keywords), weight, dy)
    assert sparse.is_sparse and sparse.is_coalesced()
    assert_same(sparse.to_dense(), dense)
    rows = sparse.indices()[0]
    assert bool((rows[1:] > rows[:-1]).all()) and (padding is None or padding % ROWS not in rows)
    y = isobit.embedding_bag(indices, weight, sparse=True, scale_grad_by_freq=True, **keywords)
    with pytest.raises(RuntimeError, match="scale_grad_by_freq does not work with a sparse gradient"):
        y.sum().backward()


@pytest.mark.parametrize("padding", (None, 3))
def test_sparse_gradient_has_no_rows_that_are_in_no_bag(padding):
    indices, offsets = torch.tensor([1, 3, 5, 2, 1, 7]), torch.tensor([0, 2, 2, 3])
    weight, factors = draw(ROWS, WIDTH).requires_grad_(), draw(6, seed=2)
    keywords = {"offsets": offsets, "include_last_offset": True, "mode": "sum", "padding_idx": padding}

    def gradient(sparse):
        y = isobit.embedding_bag(indices, weight, sparse=sparse, per_sample_weights=factors, **keywords)
        return grad(y, weight, draw(3, WIDTH, seed=3))[0]

    assert gradient(True).indices()[0].tolist() == [row for row in (1, 3, 5) if row != padding]
    assert_same(gradient(True).to_dense(), gradient(False))


@pytest.mark.parametrize("mode", MODES)
def test_by_finite_differences(mode):
    indices, keywords = bag("offsets")
    weight = draw(ROWS, 3, dtype=torch.float64).requires_grad_()
    factors = draw(20, dtype=torch.float64, seed=2).requires_grad_() if mode == "weighted" else None
    keywords["mode"] = "sum" if mode == "weighted" else mode

    def call(w, p):
        return isobit.embedding_bag(indices, w, per_sample_weights=p, **keywords)

    assert gradcheck(call, (weight, factors))


def test_max_norm_scales_in_place():
    ours, torchs = draw(ROWS, WIDTH), draw(ROWS, WIDTH)
    indices, keywords = bag("offsets")
    a = isobit.embedding_bag(indices, ours, max_norm=2.0, norm_type=1.0, **keywords)
    b = functional.embedding_bag(indices, torchs, max_norm=2.0, norm_type=1.0, **keywords)
    torch.testing.assert_close((a, ours), (b, torchs))
    # A table may be scaled again before the gradient is asked for: max does not read it.
    leaf = draw(ROWS, WIDTH).requires_grad_()
    y = isobit.embedding_bag(indices, leaf, mode="max", max_norm=2.0, **keywords)
    (y + isobit.embedding_bag(indices, leaf, mode="max", max_norm=1.0, **keywords)).sum().backward()


def test_bags_of_a_nested_tensor():
    rows = [torch.tensor([1, 5, 2]), torch.tensor([], dtype=torch.int64), torch.tensor([7, 7])]
    weight, input = draw(ROWS, WIDTH), torch.nested.nested_tensor(rows, layout=torch.jagged)
    factors = torch.nested.nested_tensor_from_jagged(draw(5), input.offsets())
    torch.testing.assert_close(isobit.embedding_bag(input, weight), functional.embedding_bag(input, weight))
    keywords = {"mode": "sum", "per_sample_weights": factors}
    torch.testing.assert_close(
        isobit.embedding_bag(input, weight, **keywords), functional.embedding_bag(input, weight, **keywords)
    )
    with pytest.raises(ValueError, match="want per_sample_weights nested, too"):
        isobit.embedding_bag(input, weight, mode="sum", per_sample_weights=draw(5))
    jagged = torch.nested.nested_tensor_from_jagged
    values, starts = torch.tensor([1, 5, 2, 7]), torch.tensor([0, 3, 4])
    other, gaps = torch.tensor([0, 1, 4]), torch.tensor([1, 1])
    with pytest.raises(ValueError, match="input is nested with gaps between its rows"):
        isobit.embedding_bag(jagged(values, starts, gaps), weight)
    with pytest.raises(ValueError, match="offsets were given, and input is nested"):
        isobit.embedding_bag(jagged(values, starts), weight, starts)
    with pytest.raises(ValueError, match="input is nested, of 3 dimensions"):
        isobit.embedding_bag(jagged(values[:, None].expand(4, 2), starts), weight)
    for offsets, lengths, message in ((other, None, "rows as long as those of input"), (starts, gaps, "with gaps")):
        factors = jagged(draw(4), offsets, lengths)
        with pytest.raises(ValueError, match=f"per_sample_weights is nested.*{message}"):
            isobit.embedding_bag(jagged(values, starts), weight, mode="sum", per_sample_weights=factors)


def test_vmap_over_indices():
    indices, weight = torch.randint(0, ROWS, (3, 8)), draw(ROWS, WIDTH)
    offsets, more = torch.tensor([0, 2, 2]), torch.tensor([[0, 2, 2], [0, 0, 8], [0, 1, 5]])
    for mode in ("sum", "max"):
        want = torch.stack([isobit.embedding_bag(i, weight, offsets, mode=mode) for i in indices])
        assert_same(vmap(lambda i, m=mode: isobit.embedding_bag(i, weight, offsets, mode=m))(indices), want)
        want = torch.stack([isobit.embedding_bag(i, weight, o, mode=mode) for i, o in zip(indices, more, strict=True)])
        assert_same(vmap(lambda i, o, m=mode: isobit.embedding_bag(i, weight, o, mode=m))(indices, more), want)


def test_compile_with_dynamic_shapes():
    compiled = torch.compile(isobit.embedding_bag, fullgraph=True, backend="aot_eager", dynamic=True)
    for n, bags, mode in ((5, 2, "mean"), (9, 4, "mean"), (7, 3, "max"), (8, 5, "max")):
        weight, indices = draw(n, 4).requires_grad_(), torch.arange(n).flip(0)
        offsets = torch.arange(bags)
        y, c = (f(indices, weight, offsets, mode=mode) for f in (isobit.embedding_bag, compiled))
        assert_same(c, y)
        assert_same(grad(c.sum(), weight), grad(y.sum(), weight))


def test_module_is_torchs():
    for keywords in ({}, {"padding_idx": 2}, {"max_norm": 1.0}, {"mode": "max"}, {"include_last_offset": True}):
        torch.manual_seed(0)
        ours = EmbeddingBag(7, 4, **keywords)
        torch.manual_seed(0)
        torchs = torch.nn.EmbeddingBag(7, 4, **keywords)
        indices, offsets = torch.tensor([1, 2, 2, 5, 2, 1]), torch.tensor([0, 2, 6])
        a, b = ours(indices, offsets), torchs(indices, offsets)
        torch.testing.assert_close(a, b)
        a.sin().sum().backward()
        b.sin().sum().backward()
        torch.testing.assert_close(ours.weight.grad, torchs.weight.grad)
    weighted, factors = EmbeddingBag(7, 4, mode="sum"), draw(2, 3)
    want = functional.embedding_bag(indices.view(2, 3), weighted.weight, mode="sum", per_sample_weights=factors)
    torch.testing.assert_close(weighted(indices.view(2, 3), per_sample_weights=factors), want)


def test_second_derivative_is_an_error():
    indices, keywords = bag("offsets")
    weight = draw(ROWS, WIDTH).requires_grad_()
    (dw,) = grad(isobit.embedding_bag(indices, weight, **keywords).square().sum(), weight, create_graph=True)
    with pytest.raises(RuntimeError, match="has no second derivative"):
        dw.sum().backward()


INDICES, W, OFFSETS = torch.tensor([1, 2, 4, 5]), draw(ROWS, WIDTH), torch.tensor([0, 2])
ERRORS = {
    "index": (ValueError, ": input is 13 at position 1; want 0 to 12", (torch.tensor([1, 13]), W, OFFSETS), {}),
    "index below": (ValueError, ": input is -1 at position 0", (torch.tensor([[-1]]), W), {}),
    "first offset": (ValueError, ": offsets is 1 at position 0; want 0 to 0", (INDICES, W, OFFSETS + 1), {}),
    "last offset": (ValueError, ": offsets is 5 at position 1; want 0 to 4", (INDICES, W, torch.tensor([0, 5])), {}),
    "descending": (ValueError, ": offsets is 2 at position 2; want 3 to 4", (INDICES, W, torch.tensor([0, 3, 2])), {}),
    "no last offset": (ValueError, "offsets has shape", (INDICES, W, OFFSETS[:0]), {"include_last_offset": True}),
    "no offsets": (ValueError, "offsets is None", (INDICES, W), {}),
    "offsets and rows": (ValueError, "whose rows are the bags", (INDICES.view(2, 2), W, OFFSETS), {}),
    "offsets of two dimensions": (ValueError, "offsets has shape", (INDICES, W, OFFSETS[None]), {}),
    "offsets no tensor": (TypeError, "offsets must be a Tensor, not list", (INDICES, W, [0, 2]), {}),
    "float offsets": (ValueError, "offsets is torch.float32; want", (INDICES, W, OFFSETS.float()), {}),
    "float input": (ValueError, "input is torch.float32; want", (INDICES.float(), W, OFFSETS), {}),
    "input of no dimension": (ValueError, "input has shape", (INDICES[0], W), {}),
    "weight of one dimension": (ValueError, "weight has shape", (INDICES, W[0], OFFSETS), {}),
    "no tensors": (TypeError, "input must be a Tensor, not list", ([1], W, OFFSETS), {}),
    "mode": (ValueError, "mode is 'avg'; want 'sum', 'mean' or 'max'", (INDICES, W, OFFSETS), {"mode": "avg"}),
    "max sparse": (ValueError, "no sparse gradient", (INDICES, W, OFFSETS), {"mode": "max", "sparse": True}),
    "max by frequency": (ValueError, "does not work", (INDICES, W, OFFSETS), {"mode": "max", "scale_grad_by_freq": True}),
    "weights of mean": (NotImplementedError, "are for mode='sum'", (INDICES, W, OFFSETS), {"per_sample_weights": W[0, :4]}),
    "weights' shape": (ValueError, "the shape of input", (INDICES, W, OFFSETS), {"per_sample_weights": W[0, :3], "mode": "sum"}),
    "weights' type": (ValueError, "per_sample_weights is torch.float64; want torch.float32, the type of weight", (INDICES, W, OFFSETS), {"per_sample_weights": W[0, :4].double(), "mode": "sum"}),
    "padding": (ValueError, "embedding_bag: padding_idx is 13; want -13 to 12", (INDICES, W, OFFSETS), {"padding_idx": 13}),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    kind, message, args, keywords = ERRORS[name]
    with pytest.raises(kind, match=message):
        isobit.embedding_bag(*args, **keywords)
    if name == "descending":  # torch sees them on two threads only
        return
    with pytest.raises((ValueError, TypeError, AttributeError, RuntimeError)):
        functional.embedding_bag(*args, **keywords)


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_comes_before_max_norm_writes(name):
    kind, _, (given, weight, *rest), keywords = ERRORS[name]
    before = weight.clone()
    with pytest.raises(kind):
        isobit.embedding_bag(given, weight, *rest, max_norm=0.1, **keywords)
    assert torch.equal(weight, before)


def test_a_sparse_gradient_without_bags_has_no_rows():
    weight = W.clone().requires_grad_()
    none = torch.empty(0, dtype=torch.int64)
    (dw,) = grad(isobit.embedding_bag(INDICES, weight, none, sparse=True, mode="sum").sum(), (weight,))
    assert dw._nnz() == 0 and dw.shape == W.shape


def test_arguments_of_odd_kinds():
    with pytest.raises(ValueError, match="embedding_bag: mode is ndarray; want 'sum'"):
        isobit.embedding_bag(INDICES, W, OFFSETS, mode=np.ones(3))
    with pytest.raises(TypeError, match="include_last_offset must be a bool, not 1"):  # without offsets, too
        isobit.embedding_bag(INDICES.view(2, 2), W, include_last_offset=1)
