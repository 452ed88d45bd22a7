"""What is raised for arguments: each error is of the kind that Python has for it, and of torch's, so that code which
catches torch's goes on working with isobit's functions in their place."""


class ArgumentError(ValueError, RuntimeError):
    """A value, dtype or shape that does not fit: a ValueError, and a RuntimeError, as torch raises."""

    __module__ = "isobit"


class UnknownType(ArgumentError, TypeError):
    """A dtype that no op takes: a wrong value, and a TypeError, as torch raises."""


class IndexOutOfRange(ArgumentError, IndexError):
    """An index of an embedding, or an axis, out of range: an IndexError, as torch's."""
