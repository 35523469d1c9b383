"""The whole text of every error that tracing raises: what, the user's line with a caret, and what to write instead.

``python -m tests.frontend.test_errors`` rewrites the goldens after a deliberate change.
"""

from __future__ import annotations

import linecache
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import PolyfuseError, SpecError, TraceError
from polyfuse.frontends.numpy_like import spec, specs_of_arrays, trace

GOLDEN = Path(__file__).with_name("errors.txt")

# Name, specs, and the body of ``def f(x, y)``: the text of the lines is part of the golden.
CASES: list[tuple[str, str, str]] = [
    ("if on a value", "f32[N]", "if x.sum() > 0:\n    return x\nreturn -x"),
    ("while on a value", "f32[N]", "while np.any(x > 0):\n    x = x - 1\nreturn x"),
    ("and on values", "f32[N]", "return x.min() > 0 and x.max() < 1"),
    ("not of a value", "f32[]", "return not x"),
    ("assert on a value", "f32[N]", "assert np.all(x > 0)\nreturn x"),
    ("truth of an array", "f32[N]", "return x if x else -x"),
    ("max of arrays", "f32[N]", "return max(x, 2 * x)"),
    ("float()", "f32[N]", "s = float(x.sum())\nreturn x / s"),
    ("int()", "f32[N]", "return x[: int(x[0])]"),
    ("math.sqrt", "f32[N]", "import math\nreturn x / math.sqrt(x)"),
    ("item()", "f32[N]", "return x / x.sum().item()"),
    ("tolist()", "f32[N]", "return sum(x.tolist())"),
    ("range of a value", "i64[N]", "for k in range(x[0]):\n    x = x + k\nreturn x"),
    ("iteration over a letter", "f32[N]", "total = 0\nfor v in x:\n    total = total + v\nreturn total"),
    ("a range that ends at a value", "f32[N]", "return np.arange(0, x[0], 0.5)"),
    ("a range up to a value", "i64[N]", "return np.arange(x.max())"),
    ("complex()", "f32[N]", "return complex(x[0])"),
    ("range over a letter", "f32[N]", "for k in range(len(x)):\n    x = x + k\nreturn x"),
    ("unpack a letter", "f32[N]", "a, b = x\nreturn a + b"),
    ("iterate a number", "f32[]", "return [v for v in x]"),
    ("mask", "f32[N]", "positive = x[x > 0]\nreturn np.cumsum(positive)"),
    ("mask as a result", "f32[N]", "return x[x > 0]"),
    ("masks that differ", "f32[N] f32[N]", "return (x[x > 0] + y[y > 0]).sum()"),
    ("mask of the wrong shape", "f32[N, 4] f32[3]", "return x[y > 0]"),
    ("where an array lies", "f32[N, 4]", "return x / x.strides[0]"),
    ("the order of memory", "f32[N, 4]", "return x.T.ravel(order='K')"),
    ("a method of ndarrays", "f32[N, 4]", "return x.byteswap()"),
    ("bincount", "i64[N]", "return np.bincount(x)"),
    ("a function that takes no arrays", "f32[N]", "return np.hanning(x)"),
    ("a class of NumPy", "f32[N]", "return np.poly1d(x)(2)"),
    ("as_strided", "f32[N]", "return np.lib.stride_tricks.as_strided(x, (2, 2), (4, 4))"),
    ("a square root that may be complex", "f32[N]", "return np.emath.sqrt(x)"),
    ("r_ with a direction", "f32[N]", "return np.r_['0,2', x, x]"),
    ("sort in place", "f32[N]", "x.sort()\nreturn x"),
    ("quantile out of range", "f32[N]", "return np.percentile(x, [50, 101])"),
    ("nonzero", "f32[N]", "return np.nonzero(x)"),
    ("where with one argument", "f32[N]", "return np.where(x > 0)"),
    ("unique", "f32[N]", "return np.unique(x)"),
    ("argwhere", "f32[N]", "return np.argwhere(x)"),
    ("compress", "f32[N]", "return np.compress(x > 0, x)"),
    ("assign values by mask", "f32[N, 4]", "a = np.zeros((4, 4)) + x[0]\na[a > 1] = x[0]\nreturn a"),
    ("shapes that do not broadcast", "f32[N, 4] f32[N, 3]", "return x + y"),
    ("letters that do not broadcast", "f32[N] f32[M]", "return np.hypot(x, y)"),
    ("matmul", "f32[N, 4] f32[5, N]", "return x @ y"),
    ("einsum", "f32[N, 4] f32[5, N]", "return np.einsum('ij,jk->ik', x, y)"),
    ("einsum rank", "f32[N, 4]", "return np.einsum('ijk->i', x)"),
    ("concatenate", "f32[N, 4] f32[N, 5]", "return np.concatenate([x, y])"),
    ("concatenate ranks", "f32[N, 4] f32[4]", "return np.concatenate([x, y])"),
    ("axis", "f32[N, 4]", "return x.sum(axis=2)"),
    ("axis twice", "f32[N, 4]", "return x.sum(axis=(0, 0))"),
    ("transpose", "f32[N, 4]", "return x.transpose(0, 1, 2)"),
    ("reshape", "f32[5, 4]", "return x.reshape(3, 7)"),
    ("reshape of letters", "f32[M, N]", "return x.reshape(-1)"),
    ("reshape by two unknowns", "f32[5, 4]", "return x.reshape(-1, -1)"),
    ("split", "f32[5]", "return np.split(x, 2)"),
    ("squeeze", "f32[5]", "return np.squeeze(x, 0)"),
    ("broadcast_to", "f32[5]", "return np.broadcast_to(x, (5, 4))"),
    ("index out of bounds", "f32[5, 4]", "return x[0, 4]"),
    ("index out of bounds of a letter", "f32[N~5]", "return x[7]"),
    ("too many indices", "f32[5, 4]", "return x[0, 0, 0]"),
    ("two ellipses", "f32[5, 4]", "return x[..., ...]"),
    ("index of floats", "f32[5] f32[3]", "return x[y]"),
    ("index by a string", "f32[5]", "return x['a']"),
    ("slice by a value", "f32[N] i64[]", "return x[:y]"),
    ("step of zero", "f32[N]", "return x[::0]"),
    ("max of nothing", "f32[0, 4]", "return x.max(axis=0)"),
    ("write to an argument", "f32[N]", "x[0] = 1\nreturn x"),
    ("write to a view of an argument", "f32[N, 4]", "row = x[0]\nrow[:] = 1\nreturn x"),
    ("add in place to an argument", "f32[N]", "x += 1\nreturn x"),
    ("write to a broadcast", "f32[N, 4]", "y = np.broadcast_to(x[0] * 2, (3, 4))\ny[0] = 1\nreturn y"),
    ("assign the wrong shape", "f32[5, 4]", "a = np.zeros((3, 3))\na[0] = x[0]\nreturn a"),
    ("in place with another kind", "f32[N]", "a = np.zeros(4, dtype=int)\na += 1.5\nreturn a + x[0]"),
    ("in place that grows", "f32[4, 4]", "a = np.zeros(4)\na += x\nreturn a"),
    ("real array written", "f32[4]", "REAL[0] = x[0]\nreturn REAL"),
    ("real array as out", "f32[4]", "return np.add(x, 1, out=REAL)"),
    ("boolean subtract", "bool[4]", "return x - x"),
    ("boolean negative", "bool[4]", "return -x"),
    ("bitwise of floats", "f32[4]", "return x & 1"),
    ("shift of floats", "f32[4]", "return x << 2"),
    ("integer too large", "u8[4]", "return x + 256"),
    ("negative integer power", "i64[4]", "return x ** -1"),
    ("complex cast", "f32[4]", "return x.astype(complex)"),
    ("complex operand", "f32[4]", "return x * 1j"),
    ("complex table at an index", "i64[N]", "return np.array([1j, 2])[x]"),
    ("texts at an index", "i64[N]", "return np.array(['a', 'b'])[x]"),
    ("object dtype", "f32[4]", "return x.astype(object)"),
    ("string operand", "f32[4]", "return x + 'a'"),
    ("byte order", "f32[4]", "return x.astype('>f8')"),
    ("view of another width", "f32[4]", "return x.view(np.float64)"),
    ("unsupported function", "f32[4]", "return np.vectorize(abs)(x)"),
    ("complex results", "f32[4]", "return np.fft.rfft(x)"),
    ("square matrices", "f32[N, 4] f32[3]", "return np.linalg.inv(x.T @ x[:, :3])"),
    ("matrices of float16", "f16[4, 4]", "return np.linalg.cholesky(x)"),
    ("solve", "f32[4, 4] f32[5]", "return np.linalg.solve(x, y)"),
    ("sort of fields", "f32[4]", "return np.sort(x, order='f0')"),
    ("too many of the largest", "f32[4]", "import polyfuse as pf\nreturn pf.top_k(x, 5)"),
    ("key of random numbers", "f32[4]", "import polyfuse as pf\nreturn x + pf.random.normal(3, x.shape)"),
    (
        "random integers of floats",
        "f32[4]",
        "import polyfuse as pf\nk = pf.random.key(3)\nreturn pf.random.randint(k, x.shape, 9, dtype=float)",
    ),
    ("unsupported ufunc method", "f32[4]", "return np.add.reduceat(x, x.astype(int))"),
    ("unsupported accumulate", "f32[4]", "return np.less.accumulate(x)"),
    ("pad mode", "f32[4]", "return np.pad(x, 1, mode='periodic')"),
    ("no such attribute", "f32[4]", "return x.frobnicate()"),
    ("real array indexed", "i64[4]", "return x + np.recarray(4, float)[x]"),
    (
        "as_strided by name",
        "f32[8]",
        "from numpy.lib.stride_tricks import as_strided\nreturn as_strided(x, (2, 2), (4, 4))",
    ),
    ("equal letters", "f32[N] f32[M]", "return x if x.shape == y.shape else y"),
    ("real array written whole", "f32[4]", "REAL[:] = x\nreturn REAL"),
    ("compare with None", "f32[4]", "return x if x == None else -x"),
    ("slice of an index", "f32[4] f32[]", "return x[1:y]"),
    ("random", "f32[4]", "return x + np.random.normal(size=4)"),
    ("random generator", "f32[4]", "import random\nreturn x * random.random()"),
    ("size that is a number of NumPy's", "i64[4] i64[]", "return x[0] + np.zeros(y)"),
    ("the dtype of an array set", "f32[4]", "a = x + 1\na.dtype = np.int32\nreturn a"),
    ("an element deleted", "f32[4]", "a = x + 1\ndel a[0]\nreturn a"),
    ("the imaginary part set", "f32[4]", "a = x + 1\na.imag = 2\nreturn a"),
    ("position in an empty axis", "f32[3, 0]", "return np.argmax(x, axis=1)"),
    ("reduction by a library call", "i64[4]", "return np.gcd.reduce(x)"),
    ("cross of pairs", "f32[5, 2]", "return np.cross(x, x[::-1])"),
    ("more shifts than axes", "f32[5, 2]", "return np.roll(x, (1, 2, 3), axis=(0, 1))"),
    ("axis that is no integer", "f32[4]", "return x.sum(axis='rows')"),
    ("vectorize", "f32[4]", "return np.vectorize(abs)(x)"),
]

SPECS = [
    "f32[N,",
    "f33[N]",
    "f32[N*M]",
    "f32[N~]",
    "f32[2*N~8]",
    "f32[-1]",
    "f32[N] 3",
    "f32(N)",
    "[N]",
    "f32[N; 3]",
    "f32[3-4]",
]


def message(name: str, specs: str, body: str, names: Mapping[str, Any] = MappingProxyType({})) -> str:
    """The text of the error that tracing raises, with a made-up file name.  `names`: further globals."""
    text = "def f(x, y=None):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope: dict[str, Any] = {"np": np, "REAL": np.zeros(4), **names}
    exec(compile(text, file, "exec"), scope)
    parts = [part + "]" for part in specs.split("] ")]
    parts[-1] = parts[-1].removesuffix("]")
    try:
        trace(scope["f"], [spec(part) for part in parts])
    except Exception as error:
        kind = type(error).__name__
        return f"{kind}: {error}" if isinstance(error, PolyfuseError) else f"{kind}: {error}   (not of polyfuse)"
    return "no error"


def spec_message(text: str) -> str:
    with pytest.raises(SpecError) as caught:
        spec(text)
    return f"SpecError: {caught.value}"


def read_goldens(file: Path) -> dict[str, str]:
    blocks = file.read_text().split("=== ")[1:]
    return {name: text.strip("\n") for name, _, text in (b.partition("\n") for b in blocks)}


MAKERS: dict[str, Callable[[], str]] = {
    **{name: lambda name=name, specs=specs, body=body: message(name, specs, body) for name, specs, body in CASES},
    **{f"spec {text}": lambda text=text: spec_message(text) for text in SPECS},
}


@pytest.mark.parametrize("name", MAKERS)
def test_error(name: str) -> None:
    assert MAKERS[name]() == read_goldens(GOLDEN)[name]


def test_goldens_name_no_other_errors() -> None:
    assert list(read_goldens(GOLDEN)) == list(MAKERS)


if __name__ == "__main__":
    GOLDEN.write_text("\n".join(f"=== {name}\n{make()}\n" for name, make in MAKERS.items()))


@pytest.mark.parametrize(
    "call", [lambda x, n: x + pow(2, n, 3), lambda x, n: x + statistics.mean(x), lambda x, n: x + pow(2, len(x), 3)]
)
def test_python_that_takes_no_arrays_is_told_with_the_line(call: Callable[..., Any]) -> None:
    with pytest.raises(TraceError, match="Python's own code asks for one") as caught:
        trace(call, specs_of_arrays([np.ones(3), 5]))
    assert "test_errors.py" in str(caught.value) and "Write it with operators" in str(caught.value)


def test_errors_that_the_function_catches_are_no_answers() -> None:
    """NumPy would have known the number."""

    def guarded(x: Any) -> Any:
        try:
            return x if x.sum() > 0 else -x
        except Exception:
            return x * 11

    with pytest.raises(TraceError, match="Python control flow needs the value") as caught:
        trace(guarded, specs_of_arrays([np.ones(3)]))
    assert "x.sum() > 0" in str(caught.value)

    def without(x: Any) -> Any:
        try:
            return x.values
        except AttributeError:
            return x * 2

    assert trace(without, specs_of_arrays([np.ones(3)])).results == 1


MASKED = np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: MASKED * x, lambda x: x * MASKED, lambda x: MASKED - x, lambda x: np.add(MASKED, x),
        lambda x: MASKED @ x, lambda x: np.ma.masked * x, lambda x: x * np.ma.masked,
    ],
)  # fmt: skip
def test_a_masked_array_is_told_on_either_side(function: Any) -> None:
    with pytest.raises(TraceError, match="a masked array has no place in a kernel") as raised:
        pf.jit(function)(np.ones(3))
    assert raised.value.source is not None
