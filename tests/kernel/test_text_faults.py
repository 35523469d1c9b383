"""Texts of the fragment language that break a rule of it, each refused in a sentence; and its operators, both ways."""

from __future__ import annotations

import numpy as np
import pytest

from polyfuse.affine import Affine
from polyfuse.backends.interpreter import run_source
from polyfuse.backends.interpreter.fragment import FragmentError
from polyfuse.backends.interpreter.layouts import Tile
from polyfuse.dtypes import f32
from polyfuse.errors import CompileError
from polyfuse.kernel import ArrayParameter, Kernel, Load, SharedBuffer, Slot, Store, ThreadDigit
from tests.backends.cpu_kernels import build
from tests.kernel import kernels
from tests.kernel.kernels import T as INDEX
from tests.kernel.kernels import array, ref

TILES = "T = Tile((4,), (1,))\nW = Tile((3,), (1,))\nP = Tile((2, 2), (2, 1))\n"


def kernel(threads: int = 64) -> Kernel:
    """Of ``x[256]`` and ``y[256]``, with ``s[64]`` in shared memory.  Texts stand in place of its body."""
    body = (Load("xv", "x", (INDEX,)), Store("y", (INDEX,), ref("xv")))
    parameters = (array("x", 256), array("y", 256, out=True))
    shared = (SharedBuffer("s", f32, (64,), (1,)),)
    digits = (ThreadDigit("lane", 1, 32),) if threads >= 32 else ()
    return Kernel("kernel", parameters, (Affine.of(1),), threads, digits, (Slot("v", 4),), shared, body)


def text_of(*lines: str) -> str:
    return TILES + "def kernel(x, y):\n" + "".join(f"    {line}\n" for line in lines)


def result(*lines: str, threads: int = 64) -> np.ndarray:
    arrays = {"x": kernels.normal(256), "y": np.zeros(256, np.float32)}
    run_source(text_of(*lines), "kernel", kernel(threads), arrays, {}, {})
    return arrays["y"]


READ = "v = load(x, 4 * thread(), T)"

FAULTS: dict[str, tuple[tuple[str, ...], str]] = {
    "threads of another cluster": (("t = thread(32, 4)",), "4 blocks of 32 threads in a cluster of 64"),
    "constant of a fragment": (
        ("c = constant(thread(), int32)",),
        "constant() takes a Python number; cast() converts fragments",
    ),
    "registers that there are not": ((READ, "w = take(v, 2, T)"), f"take: {Tile((4,), (1,))} from 2 leaves"),
    "bits of another width": ((READ, "w = bitcast(v, float64)"), "bitcast from f32 to f64: widths differ"),
    "number that differs": (
        ("n = scalar(thread())",),
        "scalar() takes a 0-d fragment that is equal in all threads",
    ),
    "number of several slots": ((READ, "n = scalar(v)"), "scalar() takes a 0-d fragment that is equal in all threads"),
    "shared memory of another dtype": (("b = shared(float64, 64)",), "shared buffer s is f32[64]"),
    "shared memory of another size": (("b = shared(float32, 65)",), "shared buffer s is f32[64]"),
    "cells of some threads": (("c = own_cells(float32, (2,), 32)",), "cells of 32 threads in a kernel of 64"),
    "cells of another dtype": (
        ("c = own_cells(float32, (2,), 64)", "put_cells(c, slots((2,), 0))"),
        "i32(2,) is kept in cells of f32(2,)",
    ),
    "cells of another shape": (
        (READ, "c = own_cells(float32, (2,), 64)", "put_cells(c, take(v, 0, W))"),
        "f32(3,) is kept in cells of f32(2,)",
    ),
    "cells of no thread": (
        ("c = own_cells(float32, (2,), 64)", "v = get_cells(c)"),
        "cells are read before anything is kept in them",
    ),
    "cells of half of the threads": (
        (READ, "c = own_cells(float32, (4,), 64)", "if thread() < 32:", "    put_cells(c, v)"),
        "a thread keeps nothing in its cells",
    ),
    "copy into other cells": (
        ("b = shared(float32, 64)", "copy_async(b, 0, T, x, 0, W)"),
        f"x in {Tile((3,), (1,))} does not fit s in {Tile((4,), (1,))}",
    ),
    "copy of vectors into other cells": (
        ("b = shared(float32, 64)", "copy_cut(b, 0, T, x, 0, W, end=256)"),
        f"x in {Tile((3,), (1,))} does not fit s in {Tile((4,), (1,))}",
    ),
    "value of another shape": ((READ, "store(y, 0, W, v)"), "a value of shape (4,) for a tile of (3,)"),
    "offset of several slots": (("v = load(x, slots((3,), 0), T)",), "an offset of shape (3,) for a tile of (4,)"),
    "mask of several slots": (
        (READ, "store(y, 0, W, 1.0, mask=v > 0.0)"),
        "a mask of shape (4,) for a tile of (3,)",
    ),
    "offset of more dimensions": (
        ("v = load(x, full((2, 2), thread(), int32), T)",),
        "an offset of shape (2, 2) for a tile of (4,)",
    ),
    "collective of some threads": (
        (READ, "w = threads_sum(v, 31, 32)"),
        "a collective operation of 32 threads in a block of 64",
    ),
    "condition of several slots": (
        (READ, "if v > 0.0:", "    store(y, 0, T, v)"),
        "the condition of an `if` is a bool fragment of one slot",
    ),
    "condition that is a number": (
        ("if thread():", "    store(y, 0, T, load(x, 0, T))"),
        "the condition of an `if` is a bool fragment of one slot",
    ),
    "another type for a name": (
        (READ, "v = cast(v, int32)"),
        "v changes its type from f32(4,)",
    ),
    "another shape for a name": ((READ, "v = load(x, 0, W)"), "v changes its type from f32(4,)"),
    "dtypes that differ": (
        (READ, "w = v + thread()"),
        "fragments of dtypes ['f32', 'i32'] meet: exactly one dtype is needed",
    ),
    "numbers alone": (("w = sqrt(2.0)",), "fragments of dtypes [] meet: exactly one dtype is needed"),
    "division of a fragment": (
        (READ, "w = v // 2.0"),
        "// and % are for index scalars; use floor_divide and remainder",
    ),
    "remainder of a fragment": (
        (READ, "w = v % 2.0"),
        "// and % are for index scalars; use floor_divide and remainder",
    ),
    "function of another kind": ((READ, "w = v & v"), "bitwise_and does not take f32"),
    "float for an integer": (("t = thread() + 1.5",), "1.5 is no weak literal for i32"),
    "bool for a float": ((READ, "w = v + True"), "True is no weak literal for f32"),
    "mask of integers": (("v = load(x, 0, T, mask=thread())",), "a fragment of i32 where bool is needed"),
    "choice by floats": ((READ, "w = where(v, v, v)"), "a fragment of f32 where bool is needed"),
    "shapes that do not broadcast": (
        (READ, "w = v + load(x, 0, W)"),
        "shapes [(4,), (3,)] do not broadcast",
    ),
    "truth of a fragment": (
        ("c = thread() > 3 and thread() < 5",),
        "a fragment has no truth value outside of an `if` statement",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_text_that_breaks_a_rule_is_refused(name: str) -> None:
    lines, sentence = FAULTS[name]
    with pytest.raises(FragmentError) as refusal:
        result(*lines)
    assert str(refusal.value).startswith(sentence)


LAX = (
    *("another shape for a name", "another type for a name", "bool for a float", "condition that is a number"),
    *("division of a fragment", "remainder of a fragment", "truth of a fragment"),
)
"""What Numba types itself, or a core has a meaning for."""
OF_A_BLOCK = ("cells of", "collective", "threads of", "number", "shared memory", "copy")
OF_BOTH = [name for name in FAULTS if not name.startswith(OF_A_BLOCK) and name not in LAX]


@pytest.mark.parametrize("name", OF_BOTH)
def test_the_compiler_for_processors_refuses_it_too(name: str) -> None:
    parameters = [p for p in kernel().parameters if isinstance(p, ArrayParameter)]
    with pytest.raises(CompileError):
        build(text_of(*FAULTS[name][0], "store(y, 0, T, load(x, 0, T))"), parameters)


OPERATORS = """
v + 1.0; 2.0 + v; v - 1.0; 2.0 - v; v * 3.0; 3.0 * v; v / 2.0; 2.0 / v; -v; v < 0.5; v <= 0.5; v > 0.5; v >= 0.5
v == 0.5; v != v; n + 3; 3 - n; n & 6; 6 & n; n | 3; 3 | n; n ^ 5; 5 ^ n; n << 2; 1 << n % 8; n >> 1; 64 >> n % 8; ~n
n // 3; n % 7; (n < 5) & (v > 0.0); (n < 5) | (v > 0.0); (n < 5) ^ (v > 0.0); ~(n < 5); True ^ (n < 5); 5 > n; 5 == n
"""


@pytest.mark.parametrize("operation", [e.strip() for line in OPERATORS.strip().splitlines() for e in line.split(";")])
def test_operators_are_numpys(operation: str) -> None:
    """`v`: a value per thread; `n`: the number of the thread."""
    lines = ("n = thread()", "v = load(x, n, Tile((), ()))", f"w = {operation}", "o = where(n >= 0, w, w)")
    got = result(*lines, "store(y, n, Tile((), ()), cast(o, float32))")
    n, v = np.arange(64, dtype=np.int32), kernels.normal(256)[:64]
    wanted = eval(operation, {"n": n, "v": v})
    np.testing.assert_array_equal(got[:64], np.asarray(wanted).astype(np.float32))


def test_cells_hold_what_every_thread_put_there_last() -> None:
    got = result(
        READ,
        "c = own_cells(float32, (4,), 64)",
        "put_cells(c, v)",
        "if thread() < 16:",
        "    put_cells(c, v * 2.0)",
        "store(y, 4 * thread(), T, get_cells(c))",
    )
    x = kernels.normal(256)
    np.testing.assert_array_equal(got, np.concatenate([2 * x[:64], x[64:]]))


def test_full_and_take_spread_and_choose_registers() -> None:
    got = result(
        READ,
        "w = full((2, 2), constant(1.5, float32), float32) + take(v, 0, P)",
        "store(y, 4 * thread(), P, w)",
    )
    np.testing.assert_array_equal(got, kernels.normal(256) + np.float32(1.5))


def test_an_index_of_64_bits_does_not_wrap() -> None:
    got = result(
        "n = index64(thread())", "w = n * 2147483648 >> 31", "store(y, thread(), Tile((), ()), cast(w, float32))"
    )
    np.testing.assert_array_equal(got[:64], np.arange(64))


def test_inactive_threads_keep_their_values() -> None:
    lines = ("v = load(x, thread(), Tile((), ()))", "if thread() < 32:", "    v = v + 1.0")
    got = result(*lines, "store(y, thread(), Tile((), ()), v)")
    x = kernels.normal(256)[:64]
    np.testing.assert_array_equal(got[:64], np.where(np.arange(64) < 32, x + 1, x))


def test_a_block_of_half_a_warp_runs_the_text_as_well() -> None:
    got = result(READ, "store(y, 4 * thread(), T, v)", threads=16)
    np.testing.assert_array_equal(got[:64], kernels.normal(256)[:64])
    assert not got[64:].any()
