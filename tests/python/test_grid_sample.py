"""grid_sample and affine_grid, bit for bit by the reference, in every layout."""

import isobit
import pytest
import torch
from kit import FLOATS, NAMES, assert_same, draw, expect, layouts, spell


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
@pytest.mark.parametrize("mode", ("bilinear", "nearest", "bicubic"))
@pytest.mark.parametrize("padding", ("zeros", "border", "reflection"))
def test_grid_sample(dtype, mode, padding):
    image = draw(2, 3, 6, 7, dtype=dtype)
    for corners in (False, True):
        grid = draw(2, 4, 5, 2, dtype=dtype, spread=0.8, seed=2)
        grid[0, 0, 0, 0], grid[0, 0, 1, 1] = float("nan"), float("inf")
        grids = [grid] if dtype.itemsize != 2 else [grid, grid.float()]
        for g in grids:
            words = (
                f"input={spell(image, True)} grid={spell(g, True)} mode={mode} padding_mode={padding} "
                f"align_corners={str(corners).lower()}"
            )
            want = expect(f"grid_sample {words}", image, g)
            for name, x in layouts(image):
                got = isobit.grid_sample(x, g, mode, padding, corners)
                assert got.is_contiguous(), name
                assert_same(got, want)
            dy = draw(2, 3, 4, 5, dtype=dtype, seed=8)
            want = expect(f"grid_sample_backward grad_output={spell(dy, True)} {words}", dy, image, g)
            for _, d in layouts(dy):
                assert_same(isobit.grid_sample_backward(d, image, g, mode, padding, corners), want)
            only = isobit.grid_sample_backward(dy, image, g, mode, padding, corners, (False, True))
            assert only[0] is None
            assert_same(only[1], want[1])


@pytest.mark.parametrize("mode", ("bilinear", "nearest", "bicubic"))
def test_grid_sample_of_a_volume(mode):
    volume, grid = draw(1, 2, 3, 4, 5), draw(1, 2, 3, 4, 3, spread=0.8)
    words = f"input={spell(volume, True)} grid={spell(grid, True)} mode={mode}"
    assert_same(isobit.grid_sample(volume, grid, mode), expect(f"grid_sample {words}", volume, grid))


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
@pytest.mark.parametrize("corners", (False, True))
def test_affine_grid(dtype, corners):
    for size in ([3, 1, 5, 6], [2, 1, 1, 4], [0, 1, 2, 2], [1, 1, 2, 3, 4]):
        rank = len(size) - 2
        theta = draw(size[0], rank, rank + 1, dtype=dtype)
        shape = [size[0], *size[2:], rank]
        grid = torch.empty(shape, dtype=dtype)
        words = f"align_corners={str(corners).lower()}"
        want = expect(f"affine_grid theta={spell(theta, True)} grid={spell(grid, True)} {words}", theta)
        assert_same(isobit.affine_grid(theta, torch.Size(size), corners), want)
        dy = draw(*shape, dtype=dtype, seed=3)
        want = expect(f"affine_grid_backward grad_grid={spell(dy, True)} {words}", dy)
        assert_same(isobit.affine_grid_backward(dy, corners), want)


@pytest.mark.parametrize("batch", (1.0, True, "1", None))
def test_a_size_is_of_ints_before_it_is_theta_s(batch):
    """A batch that is no int is of the wrong kind, with a theta of another batch, too."""
    for theta in (torch.ones(1, 2, 3), torch.ones(2, 2, 3)):
        with pytest.raises(TypeError, match=r"^affine_grid: size must be a list of ints, not \["):
            isobit.affine_grid(theta, [batch, 1, 2, 2])
