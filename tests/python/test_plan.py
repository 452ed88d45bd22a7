"""isobit.Plan: tensors of numpy and of other producers, what it answers, and what it refuses."""

import weakref

import isobit
import numpy as np
import pytest
import torch

PROBLEM = "quantize_per_tensor x=f32[6] zero_point=none q=s8 qmin=-8 qmax=7"


def test_numpy():
    x, q = np.array([-9, -1.5, 0, 0.5, 1.5, 99], np.float32), np.zeros(6, np.int8)
    plan = isobit.Plan(PROBLEM)
    plan.run(x, np.float32([1]), None, q)
    assert q.tolist() == [-8, -2, 0, 0, 2, 7]
    assert plan.workspace_size == 0
    assert [a["name"] for a in plan.describe()["args"]] == ["x", "scale", "zero_point", "q"]
    assert plan.describe()["problem"] == PROBLEM


def test_read_only_output():
    q = np.zeros(6, np.int8)
    q.setflags(write=False)
    with pytest.raises(ValueError, match="quantize_per_tensor: q is read-only"):
        isobit.Plan(PROBLEM).run(np.ones(6, np.float32), np.float32([1]), None, q)
    assert not q.any()


def test_copied_output():
    """What is written to a copy that a producer made for this call is lost."""

    class Copies:
        def __init__(self, array):
            self.array = array

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

        def __dlpack__(self, **asked):
            return self.array.__dlpack__(**asked, copy=True)

    q = np.zeros(6, np.int8)
    isobit.Plan(PROBLEM).run(Copies(np.full(6, 3, np.float32)), np.float32([1]), None, q)
    assert q.tolist() == [3] * 6
    with pytest.raises(ValueError, match="q is a copy, as its __dlpack__ says, and would be written"):
        isobit.Plan(PROBLEM).run(np.ones(6, np.float32), np.float32([1]), None, Copies(q))
    assert q.tolist() == [3] * 6


def test_proxy_as_output():
    """isinstance takes a weakref.proxy for a tensor of torch's: autograd counted a write in the memory that follows it."""

    class Proxy:
        __class__ = torch.Tensor
        requires_grad = True

        def __init__(self, tensor):
            self.__dlpack__, self.__dlpack_device__ = tensor.__dlpack__, tensor.__dlpack_device__

    q = torch.zeros(6, dtype=torch.int8)
    for proxy in (Proxy(q), weakref.proxy(q)):
        isobit.Plan(PROBLEM).run(torch.full((6,), 3.0), torch.ones(1), None, proxy)
        assert q.tolist() == [3] * 6
        q.zero_()


def test_read_only_input():
    x, q = np.ones(6, np.float32), np.zeros(6, np.int8)
    x.setflags(write=False)
    isobit.Plan(PROBLEM).run(x, np.float32([1]), None, q)
    assert q.tolist() == [1] * 6


def test_strided_numpy():
    x, q = np.arange(12, dtype=np.float32)[::-2], np.zeros((6, 3), np.int8)[:, 1]
    isobit.Plan(PROBLEM).run(x, np.float32([1]), None, q)
    assert q.tolist() == np.clip(x, -8, 7).tolist()


def test_legacy_producer():
    class Old:
        """A producer of before DLPack 1.0: no max_version."""

        def __init__(self, array):
            self.array = array

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

        def __dlpack__(self, stream=None):
            return self.array.__dlpack__(stream=stream)

    q = np.zeros(6, np.int8)
    isobit.Plan(PROBLEM).run(Old(np.full(6, 3, np.float32)), Old(np.float32([1])), None, Old(q))
    assert q.tolist() == [3] * 6


def test_no_producer():
    class Broken:
        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self, **keywords):
            return 3

    with pytest.raises(TypeError, match="quantize_per_tensor: x: its __dlpack__ gave no DLPack capsule"):
        isobit.Plan(PROBLEM).run(Broken(), np.float32([1]), None, np.zeros(6, np.int8))


@pytest.mark.parametrize(
    "text",
    ("", "nonsense", "quantize_per_tensor", "quantize_per_tensor x=f32[6] q=s8 qmin=-8 qmax=oops", "x" * 5000),
)
def test_malformed_problem(text):
    with pytest.raises(ValueError):
        isobit.Plan(text)


def test_wrong_count():
    with pytest.raises(ValueError, match="want 4"):
        isobit.Plan(PROBLEM).run(np.ones(6, np.float32))
    for n in (5, 13):
        with pytest.raises(ValueError, match=f"{n} tensors.*want"):
            isobit.Plan(PROBLEM).run(*[np.ones(6, np.float32)] * n)
    with pytest.raises(TypeError, match="tensor"):
        isobit.Plan(PROBLEM).run(*["x"] * 4)


def test_preferences():
    text = "matmul input=f32[200,300] other=f32[300,400]"  # whose workspace has a part for each thread
    one, four = (isobit.Plan(text, num_threads=n).workspace_size for n in (1, 4))
    assert one < four or isobit.Plan(text).describe()["row"] == "go"
    with pytest.raises(NotImplementedError, match="preference allows 1 bytes of workspace"):
        isobit.Plan("embedding_backward grad_output=f32[9,4] indices=i64[9] grad_weight=f32[5,4]", max_workspace=1)


def test_row():
    plan = isobit.Plan(PROBLEM, row="go")
    assert plan.describe()["row"] == "go"
    with pytest.raises((ValueError, NotImplementedError)):
        isobit.Plan(PROBLEM, row="no such row")


def test_can_implement():
    plan = isobit.Plan(PROBLEM)
    q = np.zeros(6, np.int8)
    plan.can_implement(np.ones(6, np.float32), np.float32([1]), None, q)
    assert not q.any()
    with pytest.raises(ValueError, match="x"):
        plan.can_implement(np.ones(5, np.float32), np.float32([1]), None, q)


def test_a_plan_that_was_destroyed():
    """Which is no mistake in an argument, so no ValueError."""
    handle = isobit._C.plan_create(PROBLEM, None, 0, 0)
    assert isobit._C.plan_workspace_size(handle) == 0
    isobit._C.plan_destroy(handle)
    for call in (isobit._C.plan_destroy, isobit._C.plan_describe, isobit._C.plan_workspace_size):
        with pytest.raises(RuntimeError, match="is not a handle, or was destroyed") as raised:
            call(handle)
        assert not isinstance(raised.value, ValueError)


def test_wrong_kinds_for_a_plan():
    text = "quantize_per_tensor x=f32[6] zero_point=none q=s8 qmin=-8 qmax=7"
    for argument, values in (
        ("problem", (None, b"x", 3, "a\0b", "\udcff")),
        ("row", (1, b"go", "\udcff")),
        ("max_workspace", ("a", 1.5, 2**64, None, True, -1)),
        ("num_threads", ("a", 1.5, 2**40, None, True, -1)),
    ):
        for value in values:
            with pytest.raises((TypeError, ValueError), match=r"(must be|want) ") as raised:
                isobit.Plan(**({"problem": text} | {argument: value}))
            words = "workspace" if argument == "max_workspace" else argument  # the library names it, for a negative one
            assert words in str(raised.value), (value, raised.value)
    plan, q = isobit.Plan(text), torch.full((6,), 77, dtype=torch.int8)
    for i, name in ((0, "x"), (3, "q")):
        for value in (
            "a",
            [0.0],
            torch.ones(6).to_sparse(),
            torch.ones(6, device="meta"),
            np.ones(6, "U3"),
            np.ones(6, ">f4"),
            type("HalfOfDLPack", (), {"__dlpack__": None})(),
        ):
            tensors = [torch.ones(6), torch.tensor(0.5), None, q]
            tensors[i] = value
            for call in (plan.run, plan.can_implement):
                with pytest.raises((TypeError, ValueError), match=f"^quantize_per_tensor: {name} (must be|cannot)"):
                    call(*tensors)
    assert (q == 77).all()
