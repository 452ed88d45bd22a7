"""grid_sample differentiated twice: by finite differences, against PyTorch and against tests/reference."""

import functools
import itertools

import isobit
import pytest
import torch
from kit import FLOATS, NAMES, assert_same, draw, expect, layouts, spell
from torch.autograd import grad, gradcheck, gradgradcheck

PADDINGS, CORNERS = ("zeros", "border", "reflection"), (False, True)
WAYS = list(itertools.product((2, 3), ("bilinear", "nearest", "bicubic")))
EVERY = [(*way, *rest) for way in WAYS for rest in itertools.product(PADDINGS, CORNERS)]
double = isobit.grid_sample_double_backward


@functools.cache
def torchs_is_differentiable_twice(dims, mode):
    """That of PyTorch 2.8 to 2.11 is not; of volumes, those before 2.15 have no bicubic."""
    grid = torch.zeros(1, *[1] * dims, dims, requires_grad=True)
    try:
        y = torch.nn.functional.grid_sample(torch.ones(1, 1, *[2] * dims), grid, mode, align_corners=False)
    except RuntimeError:
        return False
    return "NotImplemented" not in grad(y.sum(), grid, create_graph=True)[0].grad_fn.name()


def inputs(dims, corners, channels=2):
    """dy, input and grid in f64; positions lie away from the centres, edges and borders of pixels."""
    sizes, out = (3, 4, 2)[:dims], (2, 3, 1)[:dims]
    g = torch.Generator().manual_seed(0)
    grid = torch.empty(2, *out, dims, dtype=torch.float64)
    for axis, size in enumerate(reversed(sizes)):
        at = torch.randint(-size, 2 * size, (2, *out), generator=g).double()
        at += torch.tensor([0.1, 0.3, 0.4, 0.6, 0.8])[torch.randint(5, at.shape, generator=g)]
        grid[..., axis] = at * 2 / (size - 1) - 1 if corners else (at * 2 + 1) / size - 1
    image = torch.randn(2, channels, *sizes, generator=g, dtype=torch.float64)
    dy = torch.randn(2, channels, *out, generator=g, dtype=torch.float64)
    return [t.requires_grad_() for t in (dy, image, grid)]


@pytest.mark.parametrize(("dims", "mode", "padding", "corners"), EVERY)
def test_by_finite_differences(dims, mode, padding, corners):
    dy, image, grid = inputs(dims, corners, 1)

    def sample(image, grid):
        return isobit.grid_sample(image, grid, mode, padding, corners)

    assert gradgradcheck(sample, (image, grid), dy, check_batched_grad=True, fast_mode=True)
    assert gradgradcheck(lambda x: sample(x, grid.detach()), (image,), dy, fast_mode=True)
    assert gradgradcheck(lambda g: sample(image.detach(), g), (grid,), dy, fast_mode=True)


@pytest.mark.parametrize(("dims", "mode", "padding", "corners"), EVERY)
def test_against_pytorch(dims, mode, padding, corners):
    """The gradients of a penalty on both gradients, or on one of them, and by whatever wants one."""
    if not torchs_is_differentiable_twice(dims, mode):
        pytest.skip("this torch's grid_sample does not do that")
    for wants in ((0, 1, 2), (1, 2), (1,), (2,), (0, 1), (0, 2)):
        results = []
        for f in (isobit.grid_sample, torch.nn.functional.grid_sample):
            given = [t.detach().requires_grad_(i in wants) for i, t in enumerate(inputs(dims, corners))]
            y = f(*given[1:], mode, padding, corners)
            by = [t for t in given[1:] if t.requires_grad]
            first = grad(y, by, given[0], create_graph=True)
            penalty = sum((d.sin() * d).sum() for d in first if d.requires_grad)
            leaves = [t for t in given if t.requires_grad]
            found = grad(penalty, leaves, allow_unused=True) if isinstance(penalty, torch.Tensor) else ()
            results.append([torch.zeros(()) if t is None else t for t in found])
        got, want = results
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(g, w.expand_as(g).to(g), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
@pytest.mark.parametrize("mode", ("bilinear", "nearest", "bicubic"))
def test_values(dtype, mode):
    """Every bit, with positions that are no numbers, an f32 grid beside 16 bits, other layouts, one tangent alone."""
    shape = (2, 3, 5, 6)
    image, u, dy = draw(*shape, dtype=dtype), draw(*shape, dtype=dtype, seed=1), draw(2, 3, 4, 5, dtype=dtype, seed=2)
    grid = draw(2, 4, 5, 2, dtype=dtype, spread=0.8, seed=3)
    grid[0, 0, 0, 0], grid[0, 0, 1, 1], grid[1, 2, 3, 0] = float("nan"), float("inf"), -float("inf")
    for padding, wide in itertools.product(PADDINGS, (False, True) if dtype.itemsize == 2 else (False,)):
        g = grid.float() if wide else grid
        v = draw(2, 4, 5, 2, dtype=g.dtype, seed=4)
        words = f"grad_output={spell(dy, True)} input={spell(image, True)} grid={spell(g, True)}"
        text = f"grid_sample_double_backward {words} mode={mode} padding_mode={padding} align_corners=true"
        want = expect(text, dy, image, g, u, v)
        assert_same(double(dy, image, g, u, v, mode, padding, True), want)
        for others in zip(*(layouts(t) for t in (dy, image, u)), strict=True):
            (_, d), (_, x), (_, w) = others
            assert_same(double(d, x, g.mT.contiguous().mT, w, v.mT.contiguous().mT, mode, padding, True), want)
        for absent, given in (("grad_grad_input", (None, v)), ("grad_grad_grid", (u, None))):
            want = expect(f"{text} {absent}=none", dy, image, g, *given)
            assert_same(double(dy, image, g, *given, mode, padding, True), want)
            for mask in ((True, False, False), (False, True, False), (False, False, True)):
                some = tuple(t if m else None for t, m in zip(want, mask, strict=True))
                assert_same(double(dy, image, g, *given, mode, padding, True, mask), some)


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
@pytest.mark.parametrize(("dims", "mode", "padding", "corners"), EVERY)
def test_forward_mode_agrees(dims, mode, padding, corners, dtype):
    """By the upstream gradient it is the tangent of the result, bit for bit."""
    dy, image, grid = (t.detach().to(dtype) for t in inputs(dims, corners, 3))
    u, v = image.cos(), grid.sin()

    def sample(*given):
        return isobit.grid_sample(*given, mode, padding, corners)

    _, tangent = torch.func.jvp(sample, (image, grid), (u, v))
    assert_same(double(dy, image, grid, u, v, mode, padding, corners)[0], tangent)
    _, tangent = torch.func.jvp(lambda g: sample(image, g), (grid,), (v,))
    assert_same(double(dy, image, grid, None, v, mode, padding, corners)[0], tangent)


@pytest.mark.parametrize("mode", ("bilinear", "bicubic"))
def test_gradient_of_input_alone_has_the_same_bits(mode):
    """Where only the gradient of input is differentiated, ops with kernels are called. Of the grid's nothing comes then,
    no zeros, with which infinities are NaN."""
    image, grid, dy = draw(2, 3, 9, 8), draw(2, 7, 6, 2, spread=0.6, seed=1), draw(2, 3, 7, 6, seed=2)
    u = image.cos()
    image[0, 0, 4, 4] = torch.inf
    leaves = [t.requires_grad_() for t in (dy, image, grid)]
    with torch.no_grad():
        want = double(dy, image, grid, u, None, mode)
    for by in ((image,), (image, grid)):
        first = grad(isobit.grid_sample(image, grid, mode), by, dy, create_graph=True)[0]
        got = grad(first, leaves, u, allow_unused=True)
        assert got[1] is None and not want[1].any()
        assert_same((got[0], got[2]), (want[0], want[2]))


@pytest.mark.parametrize("mode", ("bilinear", "nearest", "bicubic"))
@pytest.mark.parametrize("shape", [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 1, 1), (1, 1, 1, 4)], ids=str)
@pytest.mark.parametrize("out", [(2, 3), (0, 3), (1, 1)], ids=str)
def test_small_extents(shape, out, mode):
    image, grid = draw(*shape), draw(shape[0], *out, 2, spread=0.5)
    dy, u, v = draw(*shape[:2], *out), image.cos(), grid.cos()
    for padding in PADDINGS:
        words = f"grad_output={spell(dy, True)} input={spell(image, True)} grid={spell(grid, True)}"
        text = f"grid_sample_double_backward {words} mode={mode} padding_mode={padding}"
        assert_same(double(dy, image, grid, u, v, mode, padding), expect(text, dy, image, grid, u, v))


def test_expanded_gradients_and_threads():
    image, grid = draw(2, 5, 40, 30).requires_grad_(), draw(2, 50, 60, 2, spread=0.7).requires_grad_()
    found = []
    try:
        for n in (1, 2, 3, 8):
            isobit.set_num_threads(n)
            first = grad(isobit.grid_sample(image, grid).sum(), (image, grid), create_graph=True)
            found.append(grad(sum(d.sum() for d in first), (image, grid)))
    finally:
        isobit.set_num_threads(None)
    for other in found[1:]:
        assert_same(other, found[0])


def test_transforms_and_graphs():
    dy, image, grid = (t.detach() for t in inputs(2, False))
    u, v = image.cos(), grid.cos()

    def loss(image, grid):
        return isobit.grid_sample(image, grid, "bicubic").sin().sum()

    def theirs(image, grid):
        return torch.nn.functional.grid_sample(image, grid, "bicubic", align_corners=False).sin().sum()

    hessian = torch.func.jacrev(torch.func.jacrev(loss, (0, 1)), (0, 1))
    if torchs_is_differentiable_twice(2, "bicubic"):
        want = torch.func.jacrev(torch.func.jacrev(theirs, (0, 1)), (0, 1))(image, grid)
        torch.testing.assert_close(hessian(image, grid), want, rtol=1e-10, atol=1e-10)
    given = (dy, image, grid, u, v)
    batch = [torch.stack([t, t.flip(0)]) for t in given]
    got = torch.vmap(double)(*batch)
    assert_same(got, [torch.stack(p) for p in zip(double(*given), double(*(b[1] for b in batch)), strict=True)])
    one = torch.vmap(lambda *t: double(*t[:3], None, t[3]))(*batch[:3], batch[4])
    assert_same([t[0] for t in one], double(*given[:3], None, v))
    run = torch.compile(lambda *t: double(*t, "bicubic", "border"), fullgraph=True, backend="aot_eager")
    assert_same(run(*given), double(*given, "bicubic", "border"))
    for t, real in zip(double(*(t.to("meta") for t in given)), double(*given), strict=True):
        assert (t.shape, t.dtype, t.stride()) == (real.shape, real.dtype, real.stride())


@pytest.mark.parametrize("sample", (isobit.grid_sample, torch.ops.isobit.grid_sample))
@pytest.mark.parametrize("mode", ("bilinear", "nearest", "bicubic"))
def test_every_way_to_a_second_derivative(sample, mode):
    """The torch op's own gradient, and reverse mode over forward mode, whose tangent holds a gradient."""
    _, image, grid = inputs(2, False, 1)
    first = grad(sample(image, grid, mode).sin().sum(), (image, grid), create_graph=True)
    got = grad(sum(d.square().sum() for d in first), (image, grid))
    if torchs_is_differentiable_twice(2, mode):
        theirs = torch.nn.functional.grid_sample(image, grid, mode, align_corners=False)
        first = grad(theirs.sin().sum(), (image, grid), create_graph=True)
        want = grad(sum(d.square().sum() for d in first), (image, grid))
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)

    def slopes(*given):
        return torch.func.jacfwd(lambda *t: isobit.grid_sample(*t, mode).sin().sum(), (0, 1))(*given)

    got = torch.func.jacrev(slopes, (0, 1))(image.detach(), grid.detach())
    reverse = torch.func.jacrev(lambda *t: isobit.grid_sample(*t, mode).sin().sum(), (0, 1))
    want = torch.func.jacrev(reverse, (0, 1))(image.detach(), grid.detach())
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)
    got = torch.func.jacfwd(reverse, (0, 1))(image.detach(), grid.detach())  # as torch.func.hessian
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("back", (isobit.grid_sample_backward, torch.ops.isobit.grid_sample_backward))
@pytest.mark.parametrize("mode", ("bilinear", "nearest", "bicubic"))
def test_the_gradient_as_an_op_has_a_gradient(back, mode):
    leaves = inputs(2, True, 1)
    ops = back is not isobit.grid_sample_backward
    forward = {"check_forward_ad": not ops, "check_batched_forward_grad": not ops}
    assert gradcheck(lambda *t: back(*t, mode, "border", True), leaves, check_batched_grad=True, **forward)
    for i, mask in enumerate(((True, False), (False, True))):
        wants = mask if ops else (mask,)
        assert gradcheck(lambda *t, i=i, w=wants: back(*t, mode, "border", True, *w)[i], leaves, **forward)
        if ops:  # the other result is empty
            results = back(*leaves, mode, "border", True, *wants)
            of_both = grad(sum(t.sum() for t in results), leaves, allow_unused=True, retain_graph=True)
            assert_same(of_both, grad(results[i].sum(), leaves, allow_unused=True))
    first = grad(sum(d.square().sum() for d in back(*leaves, mode)), leaves, create_graph=True, allow_unused=True)
    with pytest.raises(RuntimeError, match="has no second derivative"):
        grad(first[0].sum(), leaves, allow_unused=True)


@pytest.mark.parametrize(("dims", "mode"), WAYS)
def test_a_hessian_times_a_vector(dims, mode):
    """torch.autograd.functional.hvp differentiates the second derivative by what it was given. A Hessian is
    symmetric, so vhp, which takes two derivatives, has the same."""
    _, image, grid = (t.detach() for t in inputs(dims, False))
    for f, leaves in (
        (lambda x, g: isobit.grid_sample(x, g, mode).sin().sum(), (image, grid)),
        (lambda x: isobit.grid_sample(x, grid, mode).sin().sum(), (image,)),
        (lambda g: isobit.grid_sample(image, g, mode, "reflection").sin().sum(), (grid,)),
    ):
        v = tuple(draw(*t.shape, dtype=torch.float64, seed=2) for t in leaves)
        _, want = torch.autograd.functional.vhp(f, leaves, v)
        _, got = torch.autograd.functional.hvp(f, leaves, v)
        with torch.autograd.forward_ad.dual_level():  # the same by tangents, of a gradient that keeps no graph
            duals = [torch.autograd.forward_ad.make_dual(t.requires_grad_(), u) for t, u in zip(leaves, v, strict=True)]
            duals = [torch.autograd.forward_ad.unpack_dual(g).tangent for g in grad(f(*duals), leaves)]
        for g, d, w in zip(got, duals, want, strict=True):
            torch.testing.assert_close((g, d), (w, w), rtol=1e-10, atol=1e-10)


def test_a_third_derivative_is_an_error():
    leaves = dy, image, grid = inputs(2, False)
    first = grad(isobit.grid_sample(image, grid), (image, grid), dy, create_graph=True)
    second = grad(sum(d.square().sum() for d in first), leaves, create_graph=True)
    for d, leaf in itertools.product(second, leaves):
        with pytest.raises(RuntimeError, match="grid_sample has no third derivative: it can be differentiated twice"):
            grad(d.sum(), leaf, allow_unused=True, retain_graph=True)
    hessian = torch.func.jacrev(torch.func.jacrev(lambda x: isobit.grid_sample(x, grid).sin().sum()))
    with pytest.raises(NotImplementedError, match="grid_sample has no third derivative"):
        torch.func.jacfwd(hessian)(image)
    with pytest.raises(RuntimeError, match="grid_sample_double_backward has no second derivative"):
        torch.func.jacrev(torch.func.hessian(lambda g: isobit.grid_sample(image, g).sin().sum()))(grid)
    raw = torch.ops.isobit.grid_sample_double_backward(dy, image, grid, image, grid)
    with pytest.raises(RuntimeError, match="grid_sample_double_backward has no second derivative"):
        raw[0].sum().backward()


def test_errors_name_the_argument():
    dy, image, grid = (t.detach() for t in inputs(2, False))
    for message, call in (
        (r"grad_grad_input is none, and so is grad_grad_grid; want at least one", (dy, image, grid, None, None)),
        (r"grad_grad_input has shape \[1, ?2, ?3, ?4\]", (dy, image, grid, image[:1], None)),
        (r"grad_grad_grid has shape", (dy, image, grid, None, grid[:1])),
        (r"grad_output has shape", (dy[:1], image, grid, image, None)),
        (r"grad_grad_input is torch.float32|grad_grad_input is f32", (dy, image, grid, image.float(), None)),
    ):
        with pytest.raises(ValueError, match=message):
            double(*call)
    with pytest.raises(ValueError, match="output_mask is .*; want 3 bools, for grad_output, input and grid"):
        double(dy, image, grid, image, None, output_mask=(False, False, False))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ("bilinear", "nearest", "bicubic"))
def test_autograd_has_the_zeros_of_the_public_op(mode, dtype):
    image, dy = (torch.ones(1, 1, 1, 2, dtype=dtype, requires_grad=True) for _ in range(2))
    grid = torch.tensor([[[[-0.5, 0.0], [0.5, 0.0]]]], dtype=dtype)
    shift = torch.tensor([[[[-0.0, 1e-40]]]], dtype=dtype)
    (of_image,) = grad(isobit.grid_sample(image, grid, mode), image, dy, create_graph=True)
    (got,) = grad(of_image, dy, shift)
    want = double(dy.detach(), image.detach(), grid, shift, None, mode)[0]
    assert_same(got, want)
    assert not got.signbit().any()
