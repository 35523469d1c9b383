"""What a check of the CUDA fragment runtime is: one kernel, its arrays, and what NumPy says about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyfuse import dtypes, scalars
from polyfuse.affine import Affine
from polyfuse.kernel import ArrayParameter, Parameter, ScalarParameter, SizeParameter

BY_NAME = dtypes.BY_NAME
TEXT = {"bool": "boolean", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"} | {
    f"{k}{n}": f"{word}{n}" for k, word in (("i", "int"), ("u", "uint")) for n in (8, 16, 32, 64)
}
REGISTERS = [t.name for t in dtypes.ALL if t.compute == t]
FLOATS = ["f32", "f64"]
INTEGERS = [f"{k}{n}" for k in "iu" for n in (8, 16, 32, 64)]
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Check:
    """One kernel, its arrays by name (inputs are those without an expectation), and what they hold afterwards."""

    name: str
    source: str
    arrays: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]
    tolerance: float = 0.0  # relative to the value, or to `floor` where that is larger
    floor: float = 1e-12
    threads: int = 256
    grid: tuple[int, ...] = (1,)
    sizes: dict[str, int] = field(default_factory=dict)
    scalars: dict[str, tuple[str, float]] = field(default_factory=dict)
    index_bits: int = 32
    launches: int = 1
    signed_zero: bool = False
    values: dict[str, float] = field(default_factory=dict)
    printed: tuple[Parameter, ...] = ()
    entry: str = "kernel"

    def parameters(self) -> list[Parameter]:
        """Arrays, then sizes, then scalars, unless a printed kernel brings its own."""
        if self.printed:
            return list(self.printed)
        found: list[Parameter] = []
        for name, array in self.arrays.items():
            dtype = dtypes.from_numpy(array.dtype)
            found.append(ArrayParameter(name, dtype, (Affine.of(array.size),), readonly=name not in self.expected))
        found += [SizeParameter(name) for name in self.sizes]
        found += [ScalarParameter(name, BY_NAME[dtype]) for name, (dtype, _) in self.scalars.items()]
        return found

    def value(self, name: str) -> float:
        """The size or scalar of this name."""
        if name in self.scalars:
            return self.scalars[name][1]
        return self.sizes[name] if name in self.sizes else self.values[name]


def check(name: str, body: str, arrays: Arrays, expected: Arrays, tiles: str = "", **options: Any) -> Check:
    """A check whose kernel has `body`."""
    outputs = {key: np.zeros_like(value) for key, value in expected.items() if key not in arrays}
    every = {**arrays, **outputs}
    names = [*every, *options.get("sizes", {}), *options.get("scalars", {})]
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    source = f"{tiles}\ndef kernel({', '.join(names)}):\n{lines}\n"
    return Check(name, source, every, expected, **options)


def random_values(dtype: str, count: int, seed: int = 0, small: bool = False) -> np.ndarray:
    """Values of all magnitudes; `small`: safe to add up and multiply."""
    rng = np.random.default_rng(seed)
    numpy = BY_NAME[dtype].numpy
    if dtype == "bool":
        return rng.random(count) < 0.5
    if BY_NAME[dtype].is_float:
        return rng.standard_normal(count).astype(numpy)
    if small:
        return rng.integers(0 if dtype[0] == "u" else -5, 6, count).astype(numpy)
    bounds = np.iinfo(numpy)
    return rng.integers(bounds.min, bounds.max, count, dtype=numpy, endpoint=True)


NUMPY_MONOID = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "any": np.logical_or,
    "all": np.logical_and,
    "bitor": np.bitwise_or,
    "bitand": np.bitwise_and,
    "bitxor": np.bitwise_xor,
}


def monoids_of(dtype: str) -> list[str]:
    """The monoids with one value that accept a register type."""
    return [m.name for m in scalars.MONOIDS.values() if BY_NAME[dtype].kind in m.kinds and m.state == 1]
