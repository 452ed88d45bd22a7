"""The largest extents: in grid_sample up to 2^24 pixels have coordinates of their own in float32."""

import isobit
import pytest
import torch
from kit import assert_same, expect, spell

MOST = 2**24
AT = (-1.0, -1 + 2**-23, 0.0, 0.5, 1 - 2**-24, 1.0, 1 + 2**-22, 3.0, -5.0, float("inf"), float("nan"))


@pytest.mark.parametrize("mode", ("bilinear", "nearest", "bicubic"))
def test_pixels_up_to_2_24(mode):
    image = (torch.arange(MOST) % 251).to(torch.bfloat16).view(1, 1, 1, MOST)
    grid = torch.tensor(AT).repeat(3)  # of more than a vector
    grid = torch.stack([grid, torch.zeros_like(grid)], -1)[None, None]
    dy = torch.ones(1, 1, 1, grid.shape[2], dtype=image.dtype)
    for padding in ("zeros", "border", "reflection"):
        for corners in (False, True):
            words = f"input={spell(image, True)} grid={spell(grid, True)} mode={mode} padding_mode={padding}"
            words += f" align_corners={str(corners).lower()}"
            assert_same(
                isobit.grid_sample(image, grid, mode, padding, corners), expect(f"grid_sample {words}", image, grid)
            )
            got = isobit.grid_sample_backward(dy, image, grid, mode, padding, corners, (False, True))[1]
            problem = f"grid_sample_backward grad_output={spell(dy, True)} {words} grad_input=none"
            assert_same(got, expect(problem, dy, image, grid)[1])


def test_more_than_2_24_is_for_float64():
    """There 1 and 1 + 2^-24 are one place in float32, and a distance to the next pixel may be 0 or 2."""
    image, grid = torch.ones(1).expand(1, 1, 1, MOST + 1), torch.zeros(1, 1, 1, 2)
    for dtype in (torch.float32, torch.float16):
        with pytest.raises(
            ValueError, match=r"grid_sample: input has shape .*; want .* at most 16777216, .* torch.float32"
        ):
            isobit.grid_sample(image.to(dtype), grid.to(dtype))
    y = isobit.grid_sample(torch.ones(1, dtype=torch.float64).expand(1, 1, 1, MOST + 1), grid.double())
    assert y.item() == 1


def test_a_result_that_no_memory_holds_says_its_shape():
    """Its strides, which went beyond 64 bits, made torch say that a number is negative."""
    with pytest.raises(RuntimeError, match=r"\[1, 2147483648, 2147483648, 2\]"):
        isobit.affine_grid(torch.zeros(1, 2, 3), [1, 1, 2**31, 2**31])


def test_a_workspace_that_no_memory_holds_says_its_size():
    n = 2**45
    with pytest.raises(MemoryError, match=r"no memory for a workspace of \d{15} bytes"):
        isobit.embedding_backward(torch.ones(1, 1).expand(n, 1), torch.zeros(1, dtype=torch.int64).expand(n), 3)


@pytest.mark.parametrize("device", ("cpu", "meta"))
def test_a_negative_extent_is_said_by_the_ops_of_torch(device):
    """To which no function of ours comes first."""
    ops, indices = torch.ops.isobit, torch.zeros(2, dtype=torch.int64, device=device)
    for words, call in (
        (r"affine_grid: grid has shape \[2, -4, 3, 2\]", lambda t: ops.affine_grid(t(2, 2, 3), [2, 1, -4, 3])),
        (r"affine_grid_backward: .* \[2, -2, 3\]", lambda t: ops.affine_grid_backward(t(2, 4, 4, 2), [2, -2, 3])),
        (r"embedding_backward: grad_weight .* \[-1, 4\]", lambda t: ops.embedding_backward(t(2, 4), indices, -1)),
    ):
        with pytest.raises(ValueError, match=f"^{words}; want no negative extent$"):
            call(lambda *shape: torch.zeros(shape, device=device))
