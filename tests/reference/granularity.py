"""Which parameters an element of a quantized tensor uses, and sums over the elements of each.

Groups are numbered row-major in the parameters' shape.
"""

import math

import numpy as np

from .sums import stripe


class Groups:
    """ids has x's shape: the parameter of each element. shape is that of scale and zero point."""

    def __init__(self, x_shape, granularity, values):
        if granularity == "per_tensor":
            self.shape = (1,)
            self.ids = np.zeros(x_shape, np.int64)
        elif granularity == "per_channel":
            axis = values["axis"] % len(x_shape)
            self.shape = (x_shape[axis],)
            one_axis = [1] * len(x_shape)
            one_axis[axis] = x_shape[axis]
            along = np.arange(x_shape[axis]).reshape(one_axis)
            self.ids = np.broadcast_to(along, x_shape)
        else:
            blocks = {
                "per_token": lambda: [1] * (len(x_shape) - 1) + [max(x_shape[-1], 1)],
                "per_group": lambda: [1] * (len(x_shape) - 1) + [values["group_size"]],
                "per_block": lambda: values["block_size"],
            }[granularity]()
            counts = [math.ceil(n / b) for n, b in zip(x_shape, blocks, strict=True)]
            self.ids = np.zeros(x_shape, np.int64)
            for axis, (count, block) in enumerate(zip(counts, blocks, strict=True)):
                one_axis = [1] * len(x_shape)
                one_axis[axis] = x_shape[axis]
                along = (np.arange(x_shape[axis]) // block).reshape(one_axis)
                self.ids = self.ids * count + along
            self.shape = tuple(counts[:-1] if granularity == "per_token" else counts)
        self.count = math.prod(self.shape)

    def spread(self, parameter):
        """One parameter for each element."""
        return np.asarray(parameter.reshape(-1)[self.ids])

    def members(self):
        """For each group, the flat row-major positions of its elements, ascending."""
        order = np.argsort(self.ids.reshape(-1), kind="stable")
        counts = np.bincount(self.ids.reshape(-1), minlength=self.count)
        return np.split(order, np.cumsum(counts)[:-1]) if self.count else []

    def sums(self, terms):
        """Stripe over each group's elements in row-major order, one result per group."""
        flat = np.ascontiguousarray(terms).reshape(-1)
        members = self.members()
        sizes = np.array([len(m) for m in members], np.int64)
        out = np.zeros(self.count, flat.dtype)
        for size in np.unique(sizes):  # groups of one size together, for speed
            alike = np.flatnonzero(sizes == size)
            out[alike] = stripe(flat[np.stack([members[i] for i in alike])])
        return out

    def extreme(self, values, ufunc):
        """ufunc (maximum or minimum, NaN wins) over each group's elements and 0."""
        flat = np.ascontiguousarray(values).reshape(-1)
        out = [ufunc.reduce(flat[m], initial=flat.dtype.type(0)) for m in self.members()]
        return np.array(out, flat.dtype)
