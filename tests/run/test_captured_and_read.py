"""Arrays outside of a function of which Python or NumPy reads elements while it is traced: calls see them as they are.
Those that only meet arrays of the trace are data, which no trace depends on."""

from __future__ import annotations

import array
import copy
import dataclasses
import hashlib
import io
import json
import logging
import math
import operator
import pickle
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numba
import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import StalePlanError
from polyfuse.run.dispatch import Jitted
from polyfuse.run.variants import _CONTENTS
from tests.run.alike import same

Jit = Callable[..., Jitted]
Function = Callable[[Any, Any], Any]
X = np.linspace(0.5, 2, 4)


@numba.njit
def total(w: Any) -> Any:
    return w.sum()


@numba.njit
def doubled(w: Any) -> Any:
    return 2 * w


class Layer:
    def __init__(self, w: Any) -> None:
        self.w = w


@dataclass
class Record:
    w: Any


def iterated(x: Any, w: Any) -> Any:
    for v in w:
        x = x + v
    return x + w


def branched(x: Any, w: Any) -> Any:
    return x * w if (w > 2.5).any() else x + w


def compared(x: Any, w: Any) -> Any:
    return x * w if w[0] > 1.5 else x + w


def kept_in_a_copy(x: Any, w: Any) -> Any:
    found = w * 0
    found[:] = w
    found[1:] += w[:3]
    return x * found + w


def imported(x: Any, w: Any) -> Any:
    from numpy.linalg import norm

    return x * w / norm(w)


def filled(w: Any) -> Any:
    found = np.array([0.0, 0, 0, 0])
    np.copyto(found[:2], w[:2])
    np.put(found, [2, 3], w[2:])
    return found


def saved(w: Any) -> Any:
    file = io.BytesIO()
    np.save(file, w)
    file.seek(0)
    return file


def written(y: Any, w: Any) -> Any:
    y[1:] = w[1:]
    y[:2] += w[:2]
    return y


READ: dict[str, Function] = {
    "a sum": lambda x, w: x * w + w.sum(),
    "a function of NumPy's": lambda x, w: x * w / np.linalg.norm(w),
    "one that is imported inside": imported,
    "an element": lambda x, w: x * w[1] + w,
    "the last element": lambda x, w: x * w + w[-1],
    "chosen elements": lambda x, w: x * w[[3, 2, 1, 0]] + w,
    "elements where a mask holds": lambda x, w: x[:2] * w[np.array([True, False, False, True])] + w[:2],
    "arithmetic": lambda x, w: x * (w * 2) + w,
    "arithmetic from the right": lambda x, w: x * (1 - w) + w,
    "arithmetic in steps": lambda x, w: x * ((w + 1) * (w - 1)) + w,
    "a power": lambda x, w: x * w**2 + w,
    "a sign": lambda x, w: x * -w + w,
    "comparison": lambda x, w: np.where(w > 2, x, w),
    "a float": lambda x, w: x * float(w[0]) + w,
    "an integer": lambda x, w: x * int(w[0]) + w,
    "an item": lambda x, w: x * w.item(2) + w,
    "an index": lambda x, w: x[int(w[0]) - 1] * w,
    "a branch": branched,
    "a branch on an element": compared,
    "iteration": iterated,
    "unpacking": lambda x, w: x * (lambda a, *rest: a)(*w) + w,
    "a list": lambda x, w: x * w.tolist()[1] + w,
    "sum of Python's": lambda x, w: x * sum(w) + w,
    "max of Python's": lambda x, w: x * max(w) + w,
    "in": lambda x, w: x * w if 1.0 in w else x + w,
    "math": lambda x, w: x * w + math.fsum(w) + math.sqrt(w[3]),
    "operator": lambda x, w: x * operator.mul(w, 3) + operator.getitem(w, 0),
    "reduce": lambda x, w: x * reduce(operator.add, w) + w,
    "another dtype": lambda x, w: x * w.astype(np.float32) + w,
    "a scalar type": lambda x, w: x * np.float32(w) + w,
    "a copy": lambda x, w: x * w.copy() + w,
    "copy.copy": lambda x, w: x * copy.copy(w) + w,
    "copy.deepcopy": lambda x, w: x * copy.deepcopy(w) + w,
    "pickle": lambda x, w: x * pickle.loads(pickle.dumps(w)) + w,
    "a text": lambda x, w: x * w + len(f"{w}") + len(repr(w)) + len(str(w * 100)) + w.dtype.itemsize * float(str(w[0])),
    "bytes": lambda x, w: x * w + w.tobytes()[6] + bytes(w)[7],
    "a buffer": lambda x, w: x * w + memoryview(w.data)[1],
    "hashes": lambda x, w: x * w + hashlib.sha256(w).digest()[0],
    "json": lambda x, w: x * w + json.loads(json.dumps(w.tolist()))[0],
    "flat": lambda x, w: x * w + next(iter(w.flat)),
    "the array interface": lambda x, w: x * w + np.lib.stride_tricks.as_strided(w, (2,), (8,)).sum(),
    "all that a method gives": lambda x, w: x * w + w.cumsum() + w.argsort() + w.clip(2, 3),
    "dot": lambda x, w: x * w + w.dot(w),
    "matmul": lambda x, w: x @ w + w @ w,
    "inside NumPy's functions": lambda x, w: x * np.sort(w)[::-1] + w + np.max(w) + np.einsum("i,i", w, w),
    "joined": lambda x, w: np.concatenate([x, w]) + np.concatenate([w, w]) + np.r_[w, w],
    "methods of ufuncs": lambda x, w: x * np.add.reduce(w) + np.multiply.outer(w, w)[1] + w,
    "a view of it": lambda x, w: x * w[1:].sum() + w,
    "a view of a view": lambda x, w: x * w.reshape(2, 2).T[1].sum() + w,
    "a view that was copied": lambda x, w: x * w.reshape(2, 2).T.ravel() + w,
    "what indexes another": lambda x, w: x * np.arange(9.0)[w.astype(int)] + w,
    "what indexes what was computed": lambda x, w: x * (w * 2)[w.astype(int) - 1] + w,
    "what is written into a copy": kept_in_a_copy,
    "a list of it": lambda x, w: x * np.mean([w, w * 2]) + w,
    "shifts": lambda x, w: np.roll(x, int(w[0])) * w,
    "axes": lambda x, w: x.reshape(w.astype(int)[1:2] * 0 + 4) * w,
    "a size": lambda x, w: x * w + np.zeros(int(w[3])).shape[0],
    "levels": lambda x, w: np.quantile(x, w / 10)[0] * w,
    "edges": lambda x, w: np.digitize(x, w) + w,
    "a function of Numba's": lambda x, w: x * w + total(w),
    "an array that Numba makes": lambda x, w: x * doubled(w) + w,
    "nothing else": lambda x, w: x + w.sum(),
    "itself as a result": lambda x, w: (x + 1, w),
    "a view of it as a result": lambda x, w: (x + w, w[1:]),
    "nested functions": lambda x, w: (lambda v: (lambda u: u.sum() + x * u)(v))(w),
    "the classes of NumPy's": lambda x, w: x * w + sum(float(v) for v in np.nditer(w)) + np.poly1d(w)(2.0),
    "Python's buffers": lambda x, w: x * w + memoryview(w)[1] + bytearray(w)[7],
    "modules of bytes": lambda x, w: x * w + struct.unpack("4d", w)[2] + array.array("d", w)[1],
    "an object of lists": lambda x, w: x * w + np.array([w, None], dtype=object)[0].sum(),
    "an array that is filled": lambda x, w: x * w + filled(w),
    "a file": lambda x, w: x * w + np.load(saved(w))[1],
    "a class that is made inside": lambda x, w: x * Layer(w).w[0] + Record(w).w,
    "fields": lambda x, w: x * w + dataclasses.asdict(Record(w))["w"].sum() + vars(Record(w))["w"][0],
    "a program": lambda x, w: x * w + eval("w.sum()", {}, {"w": w}),
    "comprehensions": lambda x, w: x * w + sum([v * 2 for v in w]) + sum(v for v in w if v > 1),
}

CAPTURED: dict[str, Function] = {
    "a product": lambda x, w: x * w,
    "from the left": lambda x, w: w * x - w / x,
    "a matrix product": lambda x, w: x @ w + w @ x,
    "a flipped view": lambda x, w: x * w[::-1],
    "a view": lambda x, w: x[1:] * w[1:],
    "views of views": lambda x, w: x * w.reshape(2, 2).T.T.reshape(4)[::-1],
    "a transposed view": lambda x, w: x.reshape(2, 2) * w.reshape(2, 2).T,
    "np.transpose": lambda x, w: x * np.transpose(w),
    "np.reshape": lambda x, w: x.reshape(2, 2) * np.reshape(w, (2, 2)),
    "rows": lambda x, w: sum(x[:2] * row for row in w.reshape(2, 2)),
    "a row": lambda x, w: x[:2] * w.reshape(2, 2)[1],
    "new axes": lambda x, w: x * w[:, None] + w[None] + np.expand_dims(w, 0),
    "broadcast": lambda x, w: x * np.broadcast_to(w, (3, 4)),
    "np.add": lambda x, w: np.add(x, w) + np.add(w, x),
    "np.where": lambda x, w: np.where(x > 0, w, 0),
    "np.maximum": lambda x, w: np.maximum(w, x) + np.clip(x, 0, w),
    "np.dot": lambda x, w: np.dot(w, x) + np.einsum("i,i", w, x),
    "joined": lambda x, w: np.concatenate([x, w]) + np.stack([x, w]).reshape(-1),
    "np.asarray": lambda x, w: x * np.asarray(w),
    "np.array of both": lambda x, w: np.array([x, w]) + np.asarray([w, x]),
    "an index": lambda x, w: x[w.shape[0] - 1] * w,
    "its shape": lambda x, w: x.reshape(w.shape) * w + w.ndim + w.size + len(w) + np.zeros(w.shape),
    "its dtype": lambda x, w: x.astype(w.dtype) * w + np.zeros_like(w) + np.ndim(w) + w.itemsize + w.nbytes,
    "its kind": lambda x, w: x * w if isinstance(w, np.ndarray) else x,
    "whether it is there": lambda x, w: x * w if w is not None else x,
    "comparison with the trace": lambda x, w: (x > w) | (w >= x),
    "functions of ours": lambda x, w: pf.softmax(x * w),
    "operator": lambda x, w: operator.mul(w, x),
    "written": lambda x, w: written(np.zeros(4), w) + x,
}


def large(function: Function) -> Function:
    """The function of the first elements of an array that is too large to be compared without need."""
    return lambda x, w: function(x, w[:4])


@pytest.mark.parametrize("name", READ)
def test_contents_that_are_read_are_seen_when_they_change(jit: Jit, name: str) -> None:
    weights = np.arange(1.0, 5)
    function = READ[name]
    f = jit(lambda x: function(x, weights), backend="interpreter")
    for k in range(2):
        same(f(X), function(X, weights))
        traces = f.cache_info().traces
        same(f(X), function(X, weights))
        assert f.cache_info().traces == traces == k + 1
        weights[:] = [2, 2, 3, 3.5]
    weights = np.array([3.0, 3, 3.5, 4])
    same(f(X), function(X, weights))


def test_an_array_of_the_same_contents_is_the_same_program(jit: Jit) -> None:
    weights = np.arange(4.0)
    f = jit(lambda x: x * weights + weights.sum(), backend="interpreter")
    for _ in range(3):
        same(f(X), X * weights + 6)
        weights = weights.copy()
    assert f.cache_info().traces == 1


@pytest.mark.parametrize("name", ["a sum", "an element", "arithmetic", "iteration", "a function of Numba's"])
def test_contents_of_large_arrays_too(jit: Jit, name: str) -> None:
    weights = np.arange(1.0, 2001)
    function = large(READ[name])
    f = jit(lambda x: function(x, weights), backend="interpreter")
    for k in range(3):
        same(f(X), function(X, weights))
        assert f.cache_info().traces == k + 1
        weights[:4] = weights[3::-1] + k


@pytest.mark.parametrize("name", CAPTURED)
@pytest.mark.parametrize("size", [4, 2000])
def test_contents_that_are_data_are_not_compared(jit: Jit, name: str, size: int) -> None:
    weights = np.arange(1.0, size + 1)
    function = CAPTURED[name] if size == 4 else large(CAPTURED[name])
    f = jit(lambda x: function(x, weights), backend="interpreter")
    for _ in range(3):
        same(f(X), function(X, weights))
        weights += 1
    assert f.cache_info().traces == 1 and not f._variants.all()[0].watch.compared()
    weights = weights[::-1].copy()
    same(f(X), function(X, weights))


def test_integers_that_index_an_array_of_the_trace_are_data(jit: Jit) -> None:
    rows = np.array([3, 0, 1])
    f = jit(lambda x: x[rows] + np.take(x, rows), backend="interpreter")
    for k in range(3):
        same(f(X), 2 * X[rows])
        rows[:] = [k, 2, 2]
    assert f.cache_info().traces == 1


def test_of_two_arrays_only_the_one_that_is_read_is_compared(jit: Jit) -> None:
    read, met = np.arange(4.0), np.arange(4.0)
    f = jit(lambda x: x * met[::-1] + read.mean(), backend="interpreter")
    for _ in range(3):
        met += 1
        same(f(X), X * met[::-1] + read.mean())
    assert f.cache_info().traces == 1
    read += 1
    same(f(X), X * met[::-1] + read.mean())
    assert f.cache_info().traces == 2 and list(f._variants.all()[0].watch.compared()) == ["read"]


def test_arrays_that_lie_between_one_another_are_told_apart(jit: Jit) -> None:
    memory = np.arange(8.0).reshape(4, 2)
    met, read = memory[:, 0], memory[:, 1]
    f = jit(lambda x: x * met + np.roll(x, read.astype(int)[0]) * met + sum(np.broadcast_arrays(met, read)[1]))
    function = f.function
    for _ in range(3):
        same(f(X), function(X))
        met += 1
    assert f.cache_info().traces == 1
    read += 2
    same(f(X), function(X))


def test_an_array_of_which_only_the_shape_counts(jit: Jit) -> None:
    pattern = np.zeros((2, 2))
    f = jit(lambda x: x.reshape(pattern.shape) + pattern.ndim, backend="interpreter")
    for _ in range(2):
        same(f(X), X.reshape(2, 2) + 2)
        pattern += 1
    assert f.cache_info().traces == 1
    pattern = np.zeros((4, 1))
    same(f(X), X.reshape(4, 1) + 2)


# ---------------------------------------------------------------------------------------------- what it costs


def test_traces_of_other_contents_are_few(jit: Jit) -> None:
    table = np.zeros(4)
    f = jit(lambda x: x * table + table.sum(), backend="interpreter")
    for k in range(3 * _CONTENTS):
        table[:] = k
        same(f(X), X * k + 4 * k)
    assert f.cache_info().traces == 3 * _CONTENTS
    assert len(f._variants.all()) == _CONTENTS and len(f._variants._kernels) <= _CONTENTS + 1
    table[:] = 3 * _CONTENTS - 3
    f(X)
    assert f.cache_info().traces == 3 * _CONTENTS


def test_a_large_array_that_is_compared_is_told_once(jit: Jit, caplog: pytest.LogCaptureFixture) -> None:
    table = np.zeros((300, 500))
    f = jit(lambda x: x + table[0, 0], backend="interpreter")
    with caplog.at_level(logging.WARNING, "polyfuse.run"):
        for k in range(3):
            table[:] = k
            same(f(X), X + k)
    (told,) = [r.getMessage() for r in caplog.records if "compares" in r.getMessage()]
    assert "compares the 1.2 MB of table" in told and "pass it as an argument" in told


def test_a_bound_call_does_not_mix_contents_of_two_times(jit: Jit) -> None:
    w = np.array([1.0, 2.0])
    mixed = jit(lambda x: x * w[::-1] + w[0]).bind(np.ones(2))
    same(mixed(), np.array([3.0, 2.0]))
    w[:] = 10.0
    with pytest.raises(StalePlanError, match="w changed since the call was bound"):
        mixed()
    w[:] = [1.0, 2.0]
    same(mixed(), np.array([3.0, 2.0]))


def test_a_bound_call_reads_captured_arrays_and_keeps_constants(jit: Jit) -> None:
    w, x = np.array([1.0, 2.0]), np.ones(2)
    data, constant = jit(lambda x: x * w).bind(x), jit(lambda x: x * w[1]).bind(x)
    w[:] = 10.0
    same(data(), np.array([10.0, 10.0]))
    same(constant(), np.array([2.0, 2.0]))
    assert constant.rerun is not None
