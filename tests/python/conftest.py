"""What every test starts from."""

import sys

import pytest


@pytest.fixture(autouse=True)
def nothing_is_compiled():
    """torch.compile gives a function up at its eighth compilation, and has symbols for sizes that differed before:
    whichever tests those were."""
    if "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo"].reset()
