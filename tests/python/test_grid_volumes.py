"""grid_sample of volumes with mode=bicubic, and its first and second gradients, bit for bit by the reference."""

import isobit
import pytest
from kit import FLOATS, NAMES, assert_same, draw, expect, layouts, spell

VOLUMES = [
    ((2, 3, 4, 3, 5), (2, 3, 4)),
    ((1, 2, 1, 1, 1), (1, 1, 3)),
    ((1, 0, 2, 2, 2), (1, 1, 1)),
    ((0, 1, 2, 2, 2), (2, 1, 1)),
    ((1, 1, 3, 1, 2), (0, 2, 1)),
]


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
@pytest.mark.parametrize("padding", ("zeros", "border", "reflection"))
@pytest.mark.parametrize(("shape", "out"), VOLUMES, ids=str)
def test_bicubic_volumes(dtype, padding, shape, out):
    """Every bit of the three ops, with an f32 grid beside 16 bits, positions that are no numbers, other layouts."""
    image, u, dy = draw(*shape, dtype=dtype), draw(*shape, dtype=dtype, seed=1), draw(*shape[:2], *out, dtype=dtype)
    grid, v = (draw(shape[0], *out, 3, seed=seed, spread=0.8) for seed in (3, 4))
    if dtype.itemsize != 2:
        grid, v = grid.to(dtype), v.to(dtype)
    if shape[0] == 2:
        grid[0, 0, 0, 0, 0], grid[0, 0, 0, 1, 2], grid[1, 1, 2, 3, 1] = float("nan"), float("inf"), -float("inf")
    words = f"input={spell(image, True)} grid={spell(grid, True)} mode=bicubic padding_mode={padding}"
    y = expect(f"grid_sample {words}", image, grid)
    words = f"grad_output={spell(dy, True)} {words}"
    first = expect(f"grid_sample_backward {words}", dy, image, grid)
    second = expect(f"grid_sample_double_backward {words}", dy, image, grid, u, v)
    for (_, d), (_, x), (_, w) in zip(*(layouts(t) for t in (dy, image, u)), strict=True):
        assert_same(isobit.grid_sample(x, grid, "bicubic", padding), y)
        assert_same(isobit.grid_sample_backward(d, x, grid, "bicubic", padding), first)
        assert_same(isobit.grid_sample_double_backward(d, x, grid, w, v.mT.contiguous().mT, "bicubic", padding), second)
