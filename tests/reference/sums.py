"""The three orders of sums (contract, section 4). Every sum starts from +0.

All three work on the last or first axis of an array for many sums at once; the additions of one
sum happen in the contract's order, one numpy operation each, in the array's own dtype.
"""

import numpy as np

LANES = 64
BLOCK = 65536
CHUNK = 256
GROUP = 16


def pairwise(parts):
    """The binary tree over positions: (0,1), (2,3), ...; an odd one out moves up unchanged."""
    parts = list(parts)
    while len(parts) > 1:
        pairs = [a + b for a, b in zip(parts[0::2], parts[1::2], strict=False)]
        if len(parts) % 2:
            pairs.append(parts[-1])
        parts = pairs
    return parts[0]


def fold_by_halves(parts):
    """Sum the last axis (a power of two): i with i + n/2, then n/4, ... 1."""
    width = parts.shape[-1]
    while width > 1:
        width //= 2
        parts = parts[..., :width] + parts[..., width : 2 * width]
    return parts[..., 0]


def stripe(terms):
    """Stripe over the last axis: 64 lanes, folded by halves; blocks of 65,536 folded pairwise."""
    terms = np.asarray(terms)
    length = terms.shape[-1]
    blocks = []
    for start in range(0, max(length, 1), BLOCK):
        block = terms[..., start : start + BLOCK]
        lanes = np.zeros((*terms.shape[:-1], LANES), terms.dtype)
        for position in range(0, block.shape[-1], LANES):
            step = block[..., position : position + LANES]
            lanes[..., : step.shape[-1]] = lanes[..., : step.shape[-1]] + step
        blocks.append(fold_by_halves(lanes))
    return pairwise(blocks)


def chunk(contributions, zero):
    """Chunk: contributions (a sequence of arrays of zero's shape, in ascending source order),
    summed left to right in chunks of 256, the chunk sums folded pairwise."""
    sums = []
    for start in range(0, len(contributions), CHUNK):
        total = zero
        for term in contributions[start : start + CHUNK]:
            total = total + term
        sums.append(total)
    return pairwise(sums) if sums else zero


def group(terms):
    """Group over the first axis (channels): groups of 16 fold by halves, their results are added
    left to right."""
    total = np.zeros(terms.shape[1:], terms.dtype)
    for start in range(0, terms.shape[0], GROUP):
        part = terms[start : start + GROUP]
        padded = np.zeros((*terms.shape[1:], GROUP), terms.dtype)
        padded[..., : part.shape[0]] = np.moveaxis(part, 0, -1)
        total = total + fold_by_halves(padded)
    return total
