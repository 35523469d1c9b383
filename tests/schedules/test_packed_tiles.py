"""Tiles of elements of less than a word: they wait in shared memory as in memory, and are put and got as words."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyfuse as pf
from polyfuse.affine import Affine, digit
from polyfuse.banks import lane_turns
from polyfuse.bindings import is_advisory
from polyfuse.face.interpreted import run_plan
from polyfuse.kernel import Load, Store
from polyfuse.lower.inspect import flatten
from polyfuse.places.boxes import Box
from polyfuse.places.pitches import padded_pitch
from polyfuse.plan import Plan
from polyfuse.schedule import Digit
from polyfuse.testing import assert_legal

TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "u8": np.uint8, "i8": np.int8, "u16": np.uint16}


def permuted(*order: int) -> Callable[[Any], Any]:
    return lambda x: np.ascontiguousarray(np.transpose(x, order))


def planned(function: Callable[..., Any], *specs: str) -> Plan:
    return pf.jit(function).plan(*[pf.spec(s) for s in specs], target="h200")


def accesses(plan: Plan) -> dict[str, int]:
    """Elements of one access of shared memory, of the puts and the gets."""
    (launch,) = plan.launches
    tiles = {buffer.name for buffer in launch.kernel.shared}
    found = dict[str, int]()
    for op in flatten(launch.kernel.body):
        if isinstance(op, (Load, Store)) and op.array in tiles:
            found["get" if isinstance(op, Load) else "put"] = op.span
    return found


@pytest.mark.parametrize(
    ("spec", "put", "get"),
    [
        ("u8[N~10016, M~19984]", 4, 4),
        ("bf16[N~16384, M~8192]", 2, 2),
        ("f16[N~16384, M~8192]", 2, 2),
        ("u8[N~213, M~939600]", 4, 4),  # rows of what is written are odd: bytes are stored one by one
        ("u8[N~6536, M~30640]", 1, 1),  # its rows end inside of sectors, each elsewhere
        ("f32[N~8192, M~8192]", 1, 1),
    ],
)
def test_words_are_put_and_got(spec: str, put: int, get: int) -> None:
    plan = planned(permuted(1, 0), spec)
    (kernel,) = plan.kernels
    (box,) = kernel.schedule.shared
    dtype = plan.scop.dtype(box.value)
    assert kernel.strategy == "tiles" and box.packed == (dtype.itemsize < 4) and box.cells(dtype) == dtype
    assert accesses(plan) == {"put": put, "get": get}
    assert ("as in memory, and those side by side are put and got in words" in plan.explain()) == box.packed
    assert_legal(plan)


def test_what_is_computed_waits_as_it_is_computed() -> None:
    """Results that wait in place of the arrays they are made of are float32: only loads are as in memory."""
    plan = planned(lambda x, y, z: (x * y + z).T, *["bf16[N~8192, M~8192]"] * 3)
    boxes = [box for kernel in plan.kernels for box in kernel.schedule.shared]
    assert len(boxes) == 1 and not boxes[0].packed
    assert boxes[0].cells(plan.scop.dtype(boxes[0].value)).name == "f32"


def test_rows_lie_whole_words_apart() -> None:
    """Of 18 words: in 17, two of the lanes that get meet in a bank."""
    digits = {d.name: d for d in (Digit("t", "thread", Affine.of(16), 1), Digit("r", "thread", Affine.of(16), 16))}
    digits |= {d.name: d for d in (Digit("v", "slot", Affine.of(4)), Digit("w", "slot", Affine.of(4)))}
    box = Box((Affine.of(0), Affine.of(0)), (16, 64))
    put = (digit("r"), digit("t") * 4 + digit("v"))
    get = (digit("t"), digit("r") * 4 + digit("w"))
    assert padded_pitch(box, 1, [put, get], digits, 256, packed=True) == (72, 1)
    assert padded_pitch(box, 1, [put, get], digits, 256) == (66, 1)


def test_turns_of_words() -> None:
    lanes = np.arange(32)
    assert lane_turns(68 * lanes, 1, 4) == 1 and lane_turns(128 * lanes, 1, 4) == 32
    assert lane_turns(4 * lanes, 4, 4) == 4  # 16 bytes each
    np.testing.assert_array_equal(lane_turns(np.array([68 * lanes, 64 * lanes]), 1, 4), [1, 16])


CASES = {
    "bytes": ("u8", (1, 0), ("N~10016", "M~19984")),
    "bytes of odd rows": ("u8", (1, 0), ("N~213", "M~939600")),
    "signed bytes": ("i8", (2, 0, 1), ("N~400", "M~500", "K~1000")),
    "halves": ("bf16", (1, 0), ("N~9112", "M~10984")),
    "float16 behind": ("f16", (0, 2, 1), ("N~40", "M~1500", "K~1700")),
    "short rows of bytes": ("u8", (2, 1, 0), ("3", "N~2009360", "40")),
    "short rows of halves": ("bf16", (2, 1, 0), ("6", "N~5789", "2840")),
    "words of 16 bits": ("u16", (3, 1, 0, 2), ("8", "N~700", "5", "M~3600")),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_packed_tiles_are_right(case: str, seed: int) -> None:
    dtype, order, sizes = CASES[case]
    plan = planned(permuted(*order), f"{dtype}[{', '.join(sizes)}]")
    assert any(box.packed for kernel in plan.kernels for box in kernel.schedule.shared)
    assert_legal(plan)
    random, names = Random(seed), [s.partition("~")[0] for s in sizes]
    asked = [g for g in plan.guards if not is_advisory(g)]
    while True:
        given = {name: random.randrange(1, 140) for name in names if not name.isdigit()}
        if all(guard.holds(given) for guard in asked):
            break
    shape = [int(given.get(name, name)) for name in names]
    x = np.random.default_rng(seed).integers(0, 100, shape).astype(TYPES[dtype])
    (found,) = run_plan(plan, [x])
    np.testing.assert_array_equal(found, np.transpose(x, order))


def test_a_few_rows_are_a_class_of_their_own() -> None:
    """The plan for three long rows went element by element, and served 56: 175 us on an H200, 104 by their own."""
    plan = planned(permuted(1, 0), "f32[N~3, M~15935399]")
    assert all(guard.holds({"N": 7, "M": 935856}) for guard in plan.guards)
    assert not all(guard.holds({"N": 56, "M": 935856}) for guard in plan.guards)


@pytest.mark.ptx
@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_what_nothing_changes_is_not_rounded(kind: str) -> None:
    """It is stored as it was loaded, whatever its bits: in tiles, in rows of which each thread has single elements, and
    in flat walks."""
    short = ("N~468, A~1455, B~58, 3", (1, 0, 3, 2)), ("N~40, A~2001, 7", (1, 0, 2))
    for shape, order in (("N~9112, M~10984", (1, 0)), *short):
        for function, rounds in ((permuted(*order), False), (lambda x, o=order: 3 * np.transpose(x, o), True)):
            (kernel,) = pf.jit(function).lower(pf.spec(f"{kind}[{shape}]"), target="h200").compile().ready.kernels
            assert (f"cvt.rn.{kind}" in kernel.kernel.ptx) == rounds, shape
