"""Section 6 against rationals, against a scalar transcription, and, loosely, against PyTorch."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from reference import exact, run
from reference.affine_grid import base
from reference.grid_sample import coordinate, reflect
from reference.test_sums import naive_chunk, naive_group, naive_stripe

SEED = 20260105
MODES = list(itertools.product(["bilinear", "nearest"], ["zeros", "border", "reflection"], [False, True]))


def flag(value):
    return "true" if value else "false"


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_coordinates_round_in_the_order_of_the_text(name):
    kind = np.float32 if name == "f32" else np.float64
    rng = np.random.default_rng(SEED)
    g = np.concatenate([rng.uniform(-1.5, 1.5, 300), [-1, 1, 0, 1 / 3, -1 + 2**-20, 1e-30]]).astype(kind)

    def step(x):
        return exact.round_to(x, name)

    for size in (1, 2, 3, 7, 64, 1023):
        aligned, k = coordinate(g, size, True)
        assert k[0] == (size - 1) / 2
        plain, k = coordinate(g, size, False)
        assert k[0] == size / 2
        for i, value in enumerate(g):
            plus = step(Fraction(float(value)) + 1)
            assert exact.equal(aligned[i], step(step(plus / 2) * (size - 1)))
            assert exact.equal(plain[i], step(step(step(plus * size) - 1) / 2))


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_base_coordinates(name):
    kind = np.float32 if name == "f32" else np.float64
    for size in (1, 2, 3, 5, 28, 333):
        for align in (False, True):
            for i, got in enumerate(base(size, align, kind)):
                if align:
                    quotient = Fraction(2 * i, size - 1) if size > 1 else Fraction(1)
                else:
                    quotient = Fraction(2 * i + 1, size)
                want = exact.round_to(exact.round_to(quotient, name) - 1, name)
                assert got.dtype == kind and exact.equal(got, want)


@pytest.mark.parametrize("align", [False, True])
def test_reflection_by_rationals(align):
    rng = np.random.default_rng(SEED)
    for size in (1, 2, 3, 8):
        low = Fraction(0) if align else Fraction(-1, 2)
        span = size - 1 if align else size
        edges = [float(low + i * Fraction(span) / 2) for i in range(-9, 10)]
        limit = [span * (2**23 - 1) + 0.25, span * 2.0**23, span * 2.0**23 + 2, 3e30]
        c = np.concatenate([edges, rng.uniform(-40, 40, 200), limit, np.negative(limit)]).astype(np.float32)
        out, k, live = reflect(c, np.ones_like(c), size, align)
        for i, value in enumerate(c):
            a = exact.round_to(abs(Fraction(float(value)) - low), "f32")
            flips = a // span if span else 2**23
            if flips >= 2**23:
                assert out[i] == 0 and not live[i]
                continue
            extra = a - flips * span
            inner = extra if flips % 2 == 0 else exact.round_to(span - extra, "f32")
            want = exact.round_to(inner + low, "f32")
            sign = (-1) ** (flips % 2) * (-1 if value < low else 1)
            assert exact.equal(out[i], max(Fraction(0), min(Fraction(size - 1), want)))
            assert bool(live[i]) == (0 < want < size - 1)
            assert not live[i] or k[i] == sign


def scalar_axis(g, size, padding, align, kind):
    """Coordinate and k (None where it is set to 0) of one axis, one value at a time."""
    if align:
        c, k = ((g + kind(1)) / kind(2)) * kind(size - 1), kind(size - 1) / kind(2)
    else:
        c, k = ((g + kind(1)) * kind(size) - kind(1)) / kind(2), kind(size) / kind(2)
    if padding == "reflection":
        low, span = (kind(0), kind(size - 1)) if align else (kind(-0.5), kind(size))
        a = abs(c - low)
        if span == 0 or np.isnan(a) or np.isinf(a) or Fraction(float(a)) / Fraction(float(span)) >= 2**23:
            return kind(0), None
        flips = int(Fraction(float(a)) // Fraction(float(span)))
        extra = kind(float(Fraction(float(a)) - flips * Fraction(float(span))))
        k = -k if c < low else k
        k = k if flips % 2 == 0 else -k
        c = extra + low if flips % 2 == 0 else (span - extra) + low
    if padding != "zeros":
        if np.isnan(c):
            return kind(0), None
        if c <= 0:
            return kind(0), None
        if c >= size - 1:
            return kind(size - 1), None
    return c, k


def scalar_sample(image, grid, dy, mode, padding, align):
    """Output, image gradient and grid gradient, by loops over single values."""
    kind = image.dtype.type
    n, c, h, w = image.shape
    oh, ow = grid.shape[1:3]
    y = np.zeros((n, c, oh, ow), kind)
    contributions = {}
    dgrid = np.zeros_like(grid)
    for b, i, j in np.ndindex(n, oh, ow):
        x_at, kx = scalar_axis(grid[b, i, j, 0], w, padding, align, kind)
        y_at, ky = scalar_axis(grid[b, i, j, 1], h, padding, align, kind)
        if not (np.isfinite(x_at) and np.isfinite(y_at)):
            continue
        if mode == "nearest":
            px, py = int(np.rint(x_at)), int(np.rint(y_at))
            if 0 <= px < w and 0 <= py < h:
                for ch in range(c):
                    y[b, ch, i, j] = image[b, ch, py, px]
                    contributions.setdefault((b, ch, py, px), []).append(dy[b, ch, i, j])
            continue
        x0, y0 = np.floor(x_at), np.floor(y_at)
        tx, ty, sx, sy = x_at - x0, y_at - y0, (x0 + kind(1)) - x_at, (y0 + kind(1)) - y_at
        x0, y0 = int(x0), int(y0)
        taps = [(y0, x0, sx * sy), (y0, x0 + 1, tx * sy), (y0 + 1, x0, sx * ty), (y0 + 1, x0 + 1, tx * ty)]
        terms = {"N": [], "S": [], "W": [], "E": []}
        found = False
        for ch in range(c):
            g = dy[b, ch, i, j]
            v = []
            total = kind(0)
            for py, px, weight in taps:
                if 0 <= px < w and 0 <= py < h:
                    found = True
                    value = image[b, ch, py, px]
                    total = total + value * weight
                    contributions.setdefault((b, ch, py, px), []).append(g * weight)
                    v.append(value)
                else:
                    v.append(kind(0))
            y[b, ch, i, j] = total
            nw, ne, sw, se = v
            terms["N"].append(g * (ne - nw))
            terms["S"].append(g * (se - sw))
            terms["W"].append(g * (sw - nw))
            terms["E"].append(g * (se - ne))
        north, south, west, east = (naive_group(terms[d], kind) for d in "NSWE")
        if found and kx is not None:
            dgrid[b, i, j, 0] = (north * sy + south * ty) * kx
        if found and ky is not None:
            dgrid[b, i, j, 1] = (west * sx + east * tx) * ky
    dimage = np.zeros_like(image)
    for place, terms in contributions.items():
        dimage[place] = naive_chunk(terms, kind)
    return y, dimage, dgrid


def interesting_grid(n, oh, ow, h, w, kind, rng):
    grid = rng.uniform(-1.4, 1.4, (n, oh, ow, 2))
    places = [-1.0, 1.0, 0.0, -0.0]
    for extent in (w, h):  # the edges of the first and the last pixel
        places += [-1 - 1 / extent, 1 + 1 / extent, 1 - 1 / extent]
    places += [5.5, -7.25, 1e8, -3e30, np.inf, -np.inf, np.nan]
    flat = grid.reshape(-1)
    at = rng.choice(flat.size, flat.size // 3, replace=False)
    flat[at] = rng.choice(places, len(at))
    # pixel centres and the halves between them, for ties
    at = rng.choice(flat.size, flat.size // 4, replace=False)
    flat[at] = rng.integers(-4, 4 * w, len(at)) / (2.0 * w) - 1 + 1 / (2 * w)
    return grid.astype(kind)


@pytest.mark.parametrize("mode,padding,align", MODES)
@pytest.mark.parametrize("sizes", [(1, 1), (1, 3), (4, 1), (5, 4), (2, 17)])
def test_against_the_scalar_transcription(mode, padding, align, sizes):
    rng = np.random.default_rng([SEED, *sizes])
    h, w = sizes
    kind = np.float32
    n, c, oh, ow = 2, 3 + h, 5, 6
    image = rng.standard_normal((n, c, h, w)).astype(kind)
    grid = interesting_grid(n, oh, ow, h, w, kind, rng)
    dy = rng.standard_normal((n, c, oh, ow)).astype(kind)
    attributes = f"mode={mode} padding_mode={padding} align_corners={flag(align)}"
    text = f"input=f32[{n},{c},{h},{w}] grid=f32[{n},{oh},{ow},2] {attributes}"
    (y,) = run("grid_sample " + text, [image, grid])
    backward = f"grid_sample_backward grad_output=f32[{n},{c},{oh},{ow}] " + text
    dimage, dgrid = run(backward, [dy, image, grid])
    with np.errstate(all="ignore"):
        want = scalar_sample(image, grid, dy, mode, padding, align)
    for got, expected in zip((y, dimage, dgrid), want, strict=True):
        assert got.tobytes() == expected.tobytes()
    only, nothing = run(backward + " grad_grid=none", [dy, image, grid])
    assert only.tobytes() == dimage.tobytes() and nothing is None


BICUBIC = [("bicubic", *rest) for mode, *rest in MODES if mode == "nearest"]


@pytest.mark.parametrize("dims,mode,padding,align", [(d, *m) for d in (2, 3) for m in MODES + BICUBIC])
def test_close_to_pytorch(mode, padding, align, dims):
    torch = pytest.importorskip("torch", "2.15.0a0" if dims == 3 and mode == "bicubic" else None)
    rng = np.random.default_rng(SEED)
    sizes, out = [4, 5, 3][:dims], [3, 4, 5][:dims]
    image = rng.standard_normal((2, 3, *sizes))
    grid = rng.uniform(-1.8, 1.8, (2, *out, dims))
    dy = rng.standard_normal((2, 3, *out))
    ti = torch.from_numpy(image).requires_grad_()
    tg = torch.from_numpy(grid).requires_grad_()
    ty = torch.nn.functional.grid_sample(ti, tg, mode=mode, padding_mode=padding, align_corners=align)
    ty.backward(torch.from_numpy(dy))

    def spec(shape):
        return "f64[" + ",".join(map(str, shape)) + "]"

    attributes = f"mode={mode} padding_mode={padding} align_corners={flag(align)}"
    text = f"input={spec(image.shape)} grid={spec(grid.shape)} {attributes}"
    (y,) = run("grid_sample " + text, [image, grid])
    di, dg = run(f"grid_sample_backward grad_output={spec(dy.shape)} " + text, [dy, image, grid])
    assert np.allclose(y, ty.detach().numpy(), rtol=0, atol=1e-12)
    assert np.allclose(di, ti.grad.numpy(), rtol=0, atol=1e-12)
    assert np.allclose(dg, tg.grad.numpy(), rtol=0, atol=1e-11)


def torch_second(torch, mode, padding, align, dy, image, grid, u, v):
    """PyTorch's gradients of sum(dinput * u) + sum(dgrid * v)."""
    dy, image, grid = (torch.from_numpy(a).requires_grad_() for a in (dy, image, grid))
    y = torch.nn.functional.grid_sample(image, grid, mode=mode, padding_mode=padding, align_corners=align)
    first = torch.autograd.grad(y, (image, grid), dy, create_graph=True)
    loss = sum((d * torch.from_numpy(w)).sum() for d, w in zip(first, (u, v), strict=True))
    got = torch.autograd.grad(loss, (dy, image, grid), allow_unused=True)
    return [0 if t is None else t.numpy() for t in got]


@pytest.mark.parametrize("dims,mode,padding,align", [(d, *m) for d in (2, 3) for m in MODES + BICUBIC])
def test_second_gradients_close_to_pytorch(mode, padding, align, dims):
    torch = pytest.importorskip("torch", "2.15.0a0")  # whose second gradients are those of every mode
    rng = np.random.default_rng(SEED)
    sizes, out = [4, 5, 3][:dims], [3, 4, 5][:dims]
    image, u = rng.standard_normal((2, 2, 3, *sizes))
    grid, v = rng.uniform(-1.8, 1.8, (2, 2, *out, dims))
    dy = rng.standard_normal((2, 3, *out))
    want = torch_second(torch, mode, padding, align, dy, image, grid, u, v)
    text = " ".join(
        f"{name}=f64[{','.join(map(str, a.shape))}]"
        for name, a in (("grad_output", dy), ("input", image), ("grid", grid))
    )
    text = f"grid_sample_double_backward {text} mode={mode} padding_mode={padding} align_corners={flag(align)}"
    for got, expected in zip(run(text, [dy, image, grid, u, v]), want, strict=True):
        assert np.allclose(got, expected, rtol=1e-10, atol=1e-10)
    halves = [
        run(text + f" {absent}=none", [dy, image, grid, *given])
        for absent, given in (("grad_grad_grid", (u, None)), ("grad_grad_input", (None, v)))
    ]
    for whole, *parts in zip(run(text, [dy, image, grid, u, v]), *halves, strict=True):
        assert np.allclose(whole, sum(parts), rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*unit-size grids")
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("sizes", [(4, 7), (1, 3), (3, 2, 5)])
def test_affine_grid(align, sizes):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(SEED)
    dims = len(sizes)
    theta = rng.standard_normal((2, dims, dims + 1))
    dgrid = rng.standard_normal((2, *sizes, dims))
    tt = torch.from_numpy(theta).requires_grad_()
    want = torch.nn.functional.affine_grid(tt, (2, 1, *sizes), align_corners=align)
    want.backward(torch.from_numpy(dgrid))

    shape = ",".join(map(str, sizes))
    spec = f"f64[2,{shape},{dims}]"
    (grid,) = run(f"affine_grid theta=f64[2,{dims},{dims + 1}] grid={spec} align_corners={flag(align)}", [theta])
    (dtheta,) = run(f"affine_grid_backward grad_grid={spec} align_corners={flag(align)}", [dgrid])
    assert np.allclose(grid, want.detach().numpy(), rtol=0, atol=1e-14)
    assert np.allclose(dtheta, tt.grad.numpy(), rtol=0, atol=1e-12)


def test_affine_grid_backward_order():
    rng = np.random.default_rng(SEED)
    dgrid = rng.standard_normal((1, 20, 21, 2)).astype(np.float32)
    (dtheta,) = run("affine_grid_backward grad_grid=f32[1,20,21,2]", [dgrid])
    bx, by = base(21, False, np.float32), base(20, False, np.float32)
    for row in range(2):
        columns = ([], [], [])
        for i in range(20):
            for j in range(21):
                g = dgrid[0, i, j, row]
                columns[0].append(g * bx[j])
                columns[1].append(g * by[i])
                columns[2].append(g)
        assert dtheta[0, row].tolist() == [float(naive_stripe(c, np.float32)) for c in columns]
