"""The examples in docstrings print what they say."""

import doctest

import isobit
import pytest
import torch

PUBLIC = {name: getattr(module, name) for module in (isobit, isobit.nn) for name in module.__all__}
EXAMPLES = {name: of.__doc__ for name, of in PUBLIC.items() if ">>>" in (of.__doc__ or "")}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example(name):
    test = doctest.DocTestParser().get_doctest(EXAMPLES[name], {"isobit": isobit, "torch": torch}, name, None, 0)
    failures = []
    runner = doctest.DocTestRunner(verbose=False)  # else it takes pytest's -v for its own, and writes what passes, too
    runner.run(test, out=failures.append)
    assert not failures, "".join(failures)


def test_each_family_has_an_example():
    families = {"Plan", "embedding_bag", "fake_quantize_per_tensor_affine", "grid_sample", "linear", "prepare"}
    assert families <= EXAMPLES.keys()
