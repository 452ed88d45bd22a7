"""How golden tensors are made and written; README.md describes the format."""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import reference
from reference import floats

GAMMA = np.uint64(0x9E3779B97F4A7C15)
# Up to this many bytes an output's data are in the file, beyond it only their digest.
INLINE = 2400


def splitmix64(seed, count):
    """The first `count` outputs of splitmix64 from a seed."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * GAMMA
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


class Made:
    """An input that is written as the recipe that makes it."""

    def __init__(self, dtype, shape, recipe):
        self.recipe = recipe
        self.array = make(dtype, shape, recipe)


def make(dtype, shape, recipe):
    count = int(np.prod(shape, dtype=np.int64))
    if recipe["kind"] == "patterns":
        unsigned = np.uint16 if floats.NUMPY.get(dtype, np.uint16)().itemsize == 2 else np.uint8
        return reference.array_of_bits(np.arange(count).astype(unsigned).tobytes(), dtype, shape)
    draws = splitmix64(recipe["seed"], count)
    if recipe["kind"] == "integers":
        values = (draws >> np.uint64(32)) % np.uint64(recipe["count"])
        return (values.astype(np.int64) + recipe["low"]).astype(floats.NUMPY[dtype]).reshape(shape)
    bits = recipe["bits"]
    whole = (draws >> np.uint64(64 - bits)).astype(np.int64) - 2 ** (bits - 1)
    values = np.ldexp(whole.astype(np.float64), recipe["exponent"])
    exact = floats.store(values, dtype)
    assert np.array_equal(floats.widen(exact, np.float64), values), "the recipe must be exact"
    return exact.reshape(shape)


def uniform(dtype, shape, seed, bits=None, exponent=None):
    """Whole numbers of `bits` bits times 2**exponent, in [-8, 8) unless said."""
    bits = bits or (8 if dtype in ("f16", "bf16") else 24)
    exponent = 4 - bits if exponent is None else exponent
    return Made(dtype, shape, {"kind": "floats", "seed": seed, "bits": bits, "exponent": exponent})


def integers(dtype, shape, seed, low, count):
    return Made(dtype, shape, {"kind": "integers", "seed": seed, "low": low, "count": count})


def patterns(dtype, count):
    return Made(dtype, (count,), {"kind": "patterns"})


def encode(array, recipe=None, digest_alone=False):
    if array is None:
        return None
    data = reference.bits_of(array)
    out = {"dtype": reference.dtype_name(array), "shape": list(reference.shape_of(array))}
    digest = hashlib.sha256(data).hexdigest()
    if recipe:
        return {**out, "make": recipe, "sha256": digest}
    if len(data) <= INLINE or not digest_alone:
        return {**out, "data": data.hex()}
    if out["dtype"] in floats.FLOATS and np.isnan(floats.widen(array, np.float64)).any():
        raise ValueError("a tensor with NaN cannot be written as a digest")
    return {**out, "sha256": digest}


def decode(tensor):
    """The array of an encoded tensor, or None where only its digest is known."""
    if "data" in tensor:
        return reference.array_of_bits(bytes.fromhex(tensor["data"]), tensor["dtype"], tensor["shape"])
    if "make" in tensor:
        return make(tensor["dtype"], tensor["shape"], tensor["make"])
    return None


class Family:
    """The cases of one file. Each draws its data from its own seed."""

    def __init__(self, name, seed):
        self.name, self.seed, self.cases = name, seed, []

    def rng(self):
        """The generator of the next case."""
        return np.random.default_rng([self.seed, len(self.cases)])

    def add(self, problem, inputs, initial=None):
        arrays = [i.array if isinstance(i, Made) else i for i in inputs]
        outputs = reference.run(problem, arrays, initial=initial)
        case = {
            "problem": problem,
            "seed": [self.seed, len(self.cases)],
            "inputs": [
                encode(a, i.recipe if isinstance(i, Made) else None) for a, i in zip(arrays, inputs, strict=True)
            ],
        }
        if initial is not None:
            case["initial"] = [encode(a) for a in initial]
        case["outputs"] = [encode(a, digest_alone=True) for a in outputs]
        self.cases.append(case)

    def write(self, folder):
        lines = [json.dumps(case, separators=(",", ":")) for case in self.cases]
        head = f'{{"format":1,"family":"{self.name}","seed":{self.seed},"cases":[\n'
        path = Path(folder) / f"{self.name}.json"
        path.write_text(head + ",\n".join(lines) + "\n]}\n")
        print(f"{path.name}: seed {self.seed}, {len(self.cases)} cases, {path.stat().st_size} bytes")


def stored(values, dtype):
    """f64 values rounded to a dtype; an array or BF16."""
    values = np.asarray(values, np.float64)
    with np.errstate(all="ignore"):
        if dtype in floats.FLOATS:
            return floats.store(values, dtype)
        return values.astype(floats.NUMPY[dtype])


def specials(dtype):
    """Zeros, infinities, NaN, the least and largest numbers, in f64 (they are exact there)."""
    least, tiny, most = {
        "f64": (5e-324, 2.0**-1022, np.finfo(np.float64).max),
        "f32": (2.0**-149, 2.0**-126, float(np.finfo(np.float32).max)),
        "f16": (2.0**-24, 2.0**-14, 65504.0),
        "bf16": (2.0**-133, 2.0**-126, (2 - 2.0**-7) * 2.0**127),
    }[dtype]
    positive = [0.0, least, 3 * least, tiny, tiny - least, most, np.inf]
    return np.array(positive + [-p for p in positive] + [np.nan])


def salted(values, dtype, rng, share=0.25):
    """Some of the values replaced by special ones."""
    flat = np.array(values, np.float64).reshape(-1)
    at = rng.random(flat.size) < share
    flat[at] = rng.choice(specials(dtype), at.sum())
    return flat.reshape(np.shape(values))


def spelled(dtype, shape):
    return f"{dtype}[{','.join(map(str, shape))}]"
