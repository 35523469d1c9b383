"""Arrays with parts taken out, put in or written at known positions, joined and split, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyfuse.errors import DTypeError, IndexingError, PolyfuseError, ShapeError
from tests.frontend.ops import assert_same, run

RANDOM = np.random.default_rng(11)
ARRAYS = {
    "x": RANDOM.standard_normal(6),
    "a": RANDOM.standard_normal((4, 4)),
    "b": RANDOM.standard_normal((4, 6)),
    "t": RANDOM.standard_normal((3, 3, 3)),
    "k": RANDOM.integers(0, 24, 5),
    "i": RANDOM.integers(0, 4, 5),
    "j": RANDOM.integers(-7, 9, 5),
    "o": RANDOM.integers(0, 9, 4).astype(np.uint8),
    "z": RANDOM.standard_normal(1),
}

COPIES = {"w": "x", "c": "a", "d": "b", "u": "t", "g": "k", "h": "o"}
"""What is written to."""

VALUES = """
np.delete(x, 2); np.delete(x, [0, -1]); np.delete(x, slice(1, 4)); np.delete(b, 1, axis=1); np.delete(b, [0, 3])
np.delete(x, [])
np.delete(b, slice(None), axis=0); np.delete(x, np.array([True, False] * 3)); np.delete(b, slice(None, None, 2), axis=1)
np.insert(x, 2, 5.0); np.insert(x, -1, [1, 2, 3]); np.insert(x, [0, 3, 3], 7); np.insert(x, [4, 1], [8, 9])
np.insert(b, 1, 5, 1)
np.insert(b, [0, 2], 3.0, axis=0); np.insert(b, 2, x, axis=0); np.insert(b, slice(0, 2), 5, axis=1)
np.insert(b, 3, 1.5)
np.insert(b, [1], x, axis=0); np.insert(k, 0, 2.9); np.insert(b, 1, a[0], axis=1); np.insert(x, 6, 1)
np.insert(x, [], [])
np.resize(x, 4); np.resize(x, (3, 5)); np.resize(b, (2, 2)); np.resize(x[:0], 3); np.resize(x, 0); np.resize(z, (2, 3))
np.diagflat(x); np.diagflat(b[:2, :2], 1); np.diagflat(z, -2); np.append(x, [1, 2]); np.append(b, b[:1], axis=0)
a[np.tril_indices_from(a)]; b[np.triu_indices_from(b, 1)]; a[np.diag_indices_from(a)]; t[np.diag_indices_from(t)]
np.unravel_index(k, (4, 6)); np.unravel_index(k, (2, 3, 4)); np.unravel_index(k, (4, 6), order="F")
np.unravel_index(k, 24)
np.ravel_multi_index((i, i), (4, 6)); np.ravel_multi_index((i, i), (4, 6), order="F")
np.ravel_multi_index((j, i), (4, 6), mode="wrap")
np.ravel_multi_index((j, j), (4, 6), mode="clip"); np.ravel_multi_index((j, j), (4, 6), mode=("clip", "wrap"))
b[np.ix_([0, 2], [1, 5, 3])]; b[np.ix_(i, i)]; a[np.ix_(i[:2], [0, 1])]
np.split(b, 2); np.split(b, [1, 3], axis=1); np.hsplit(b, 3); np.vsplit(b, 2); np.array_split(x, 4); np.dsplit(t, 3)
np.split(x, [4, 2])
np.array_split(b, 4, axis=1); np.array_split(x, [2, 9]); np.stack([x, x * 2], 1); np.hstack([x, x])
np.vstack([x, x]); np.dstack([a, a])
np.column_stack([x, x, b.T]); np.concatenate([b, b], None); np.block([[a, a], [a, a]]); np.block([x, x])
np.tile(x, (2, 2)); np.tile(b, 2)
np.repeat(x, 3); np.repeat(b, 2, axis=1); np.repeat(b, [1, 0, 2, 1], axis=0); np.repeat(z, 4); np.roll(b, 2)
np.roll(b, (1, -2), (0, 1)); np.roll(b, k[0], axis=1); np.roll(x, -k[1])
np.roll(b, (o[0], j[1]), (0, 1)); np.roll(b, j[:2])
np.pad(x, 2); np.pad(b, ((1, 2), (0, 3))); np.pad(x, 3, "edge"); np.pad(x, (2, 3), "reflect")
np.pad(x, (2, 3), "symmetric")
np.pad(x, 2, "wrap"); np.pad(x, 2, constant_values=(1, 2)); np.pad(b, 1, mode="constant", constant_values=3)
np.pad(k, 1)
np.pad(x, (2, 3), "maximum"); np.pad(b, 1, "minimum"); np.pad(b, ((0, 2), (1, 1)), "mean"); np.pad(b, 2, "median")
np.pad(k, 1, "mean"); np.pad(k, (0, 9), "median", stat_length=2); np.pad(b, 2, "mean", stat_length=((1, 2), (3, 99)))
np.pad(x, 3, "maximum", stat_length=1); np.pad(x, (4, 3), "linear_ramp")
np.pad(k, 5, "linear_ramp", end_values=(7, -9))
np.pad(b, ((1, 2), (0, 3)), "linear_ramp", end_values=((1, 2), (3, 4))); np.pad(b.astype(np.float32), 2, "linear_ramp")
np.pad(x, 3, "reflect", reflect_type="odd"); np.pad(b, (2, 3), "symmetric", reflect_type="odd")
np.pad(k, 2, "reflect", reflect_type="odd"); np.pad(x, (len(b), 1), "mean"); np.pad(x, 2, "median", stat_length=len(b))
"""

WRITES = """
np.put(w, [1, -1], 5); np.put(w, [0, 2, 4], [1, 2]); np.put(w, [7, -9], [1, 2], mode="clip")
np.put(w, [7, 9], 3, mode="wrap")
np.put(c, [0, 5, 15], [1, 2, 3]); np.put(c, k[:1] % 16, 9); np.put(c, [[0, 1], [2, 3]], [[4, 5], [6, 7]])
np.put(w, [3, 3], [1, 2])
np.putmask(w, w > 0, 1); np.putmask(w, w > 0, -w); np.putmask(c, c > 0, c.T); np.putmask(c, c > 0, z[0])
np.putmask(w, x < 0, z)
np.putmask(c, c > 0, x); np.putmask(c, c > 0, c[:, :1]); np.putmask(w, w > 0, [1, 2, 3]); np.putmask(d, d > 0, c[0])
np.copyto(g, x[:5], casting="unsafe"); np.copyto(g, 3); np.copyto(h, 200, where=h > 3)
np.copyto(w, g[0])
np.copyto(g, w[:5] * 4, "unsafe", g > 9); np.copyto(w, h[0]); np.copyto(w, True)
np.place(w, w > 0, 5); np.place(w, w > 0, [2.5]); np.place(c, c < 0, z)
np.fill_diagonal(c, 1); np.fill_diagonal(c, x[:4]); np.fill_diagonal(c, [1, 2, 3, 4]); np.fill_diagonal(d, 7)
np.fill_diagonal(d.T, 7)
np.fill_diagonal(c, [1, 2]); np.fill_diagonal(c, x); np.fill_diagonal(d, [1, 2, 3]); np.fill_diagonal(u, 0)
np.fill_diagonal(u, [1, 2, 3])
np.fill_diagonal(c, 1, wrap=True); np.fill_diagonal(c, [1, 2, 3], wrap=True); np.fill_diagonal(d, x, wrap=True)
np.fill_diagonal(d.T, [1, 2, 3, 4, 5], wrap=True); np.fill_diagonal(u, [1, 2, 3], wrap=True)
c.flat = 3; c.flat = x; w.flat = c; d.flat = b.T; c[1:].flat = [1, 2]; np.copyto(c, 2); np.copyto(c, x[:4])
np.copyto(w, 1, where=w > 0)
w[::2] = 1; c[1:3, ::2] = z; c[[0, 2]] = 5; c[[0, 2], [1, 3]] = [8, 9]; c[:, 1] = c[:, 0]; c[::-1] = a
w[[1, 1]] += 1; c[..., 0] *= 2
"""

REFUSED: dict[str, tuple[type[PolyfuseError], str]] = {
    "np.delete(x, k)": (IndexingError, "np.delete at positions that are data: its result has no static shape"),
    "np.delete(x, [k[0]])": (IndexingError, "np.delete at positions that are data: its result has no static shape"),
    "np.insert(x, k[0], 1)": (IndexingError, "np.insert at positions that are data: its result has no static shape"),
    "np.insert(o, 0, 1000)": (DTypeError, "the Python integer 1000 is out of bounds for uint8"),
    "np.r_[o, -1]": (DTypeError, "the Python integer -1 is out of bounds for uint8"),
    "np.ravel_multi_index((i, i), (4, 6, 2))": (ShapeError, "2 indices for 3 axes"),
    "np.place(c, c > 0, x)": (ShapeError, "np.place takes its values one by one where the mask holds"),
    "np.fill_diagonal(w, 1)": (ShapeError, "np.fill_diagonal takes arrays with two axes or more, not a vector or a"),
    "np.fill_diagonal(np.zeros((2, 3, 3)), 1)": (ShapeError, "axes of (2, 3, 3) differ, so that it has no diagonal"),
    "np.copyto(k * 1, x[:5])": (DTypeError, "np.copyto does not cast float64 to int64 by the rule 'same_kind'"),
    "np.copyto(k * 1, 2.5)": (DTypeError, "np.copyto does not cast float64 to int64 by the rule 'same_kind'"),
    "np.copyto(x * 1, k[0], casting='no')": (DTypeError, "np.copyto does not cast int64 to float64 by the rule 'no'"),
}


def listed(text: str) -> list[str]:
    return [entry.strip() for line in text.strip().splitlines() for entry in line.split("; ")]


def names_of(arrays: tuple[Any, ...]) -> dict[str, Any]:
    names = dict(zip(ARRAYS, arrays, strict=True))
    copies = {copy: names[name].copy() for copy, name in COPIES.items()}
    return {"np": np, **names, **copies}


def value(expression: str, runner: Any) -> Any:
    code = compile(expression, "<expression>", "eval")
    return runner(lambda *arrays: eval(code, names_of(arrays)), *ARRAYS.values())


def written(statement: str, runner: Any) -> Any:
    """The arrays that may have been written to."""
    code = compile(statement, "<statement>", "exec")

    def function(*arrays: Any) -> Any:
        names = names_of(arrays)
        exec(code, names)
        return [names[n] for n in COPIES]

    return runner(function, *ARRAYS.values())


def by_numpy(function: Any, *arrays: Any) -> Any:
    return function(*(a.copy() for a in arrays))


@pytest.mark.parametrize("expression", listed(VALUES))
def test_a_new_array(expression: str) -> None:
    assert_same(value(expression, run), value(expression, by_numpy))


@pytest.mark.parametrize("statement", listed(WRITES))
def test_a_write(statement: str) -> None:
    assert_same(written(statement, run), written(statement, by_numpy))


@pytest.mark.parametrize("statement", REFUSED)
def test_refused(statement: str) -> None:
    kind, problem = REFUSED[statement]
    with pytest.raises(kind) as refusal:
        written(statement, run)
    assert str(refusal.value).startswith(problem)
