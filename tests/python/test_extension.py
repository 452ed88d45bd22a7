"""What the extension says where a signature of ours does not fit it."""

import isobit
import pytest
import torch
from isobit import _C

X = ("x", True, False, 0, False, False)
Y = ("y", False, 0, 0, -1, True, -1, ())
BAD = {
    "no inputs": ((), (), (Y,)),
    "more tensors than a call has room for": ((X,) * 12, (), (Y,)),
    "more attributes": ((X,), (("a", "i", False),) * 17, ()),
    "more words of a shape": ((X,), (), ((*Y[:-1], ((0, 0, 0, 0),) * 5),)),
    "a longer name": ((("x" * 100, *X[1:]),), (), ()),
}


@pytest.mark.parametrize("name", BAD)
def test_signatures_that_do_not_fit(name):
    with pytest.raises(ValueError, match="^define: "):
        _C.define("op", "op", *BAD[name])


@pytest.mark.parametrize("count", (0, 9))
def test_calls_that_do_not_fit(count):
    op = isobit._op.OPS["quantize_per_tensor"]
    for call in (op.run, op.fast, op.infer):
        with pytest.raises(TypeError, match=f"^quantize_per_tensor: {count} arguments came; want 7 to 8"):
            call(*[torch.ones(2)] * count)
