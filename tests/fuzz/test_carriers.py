"""Arguments keep their strides, offset and elements in every library that holds them."""

from __future__ import annotations

import numpy as np
import pytest

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.carriers import InCuPy, InTorch, NoSuchArray, OnHost, carrier_of
from polyfuse.fuzz.check import compare, expectation, run
from polyfuse.fuzz.program import WrittenProgram
from polyfuse.fuzz.ways import Way

VALUES = [
    ArrayValue((3, 5)),
    ArrayValue((3, 5), "bf16", "special", 1, None, 3),
    ArrayValue((4, 2), "u16", "extreme", 2, (1, 4)),
    ArrayValue((4, 6), "bool", "normal", 3, (0, 1), 1),
    ArrayValue((), "f64", "normal", 4, None, 1),
    ArrayValue((2, 0), "i32"),
    ArrayValue((5, 5), "f16", "normal", 6, (2, 1)),
]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_torch_holds_the_same_elements(value: ArrayValue) -> None:
    torch = pytest.importorskip("torch")
    held = InTorch("cpu").put(value)
    assert isinstance(held, torch.Tensor)
    assert InTorch("cpu").get(held).tobytes() == value.made().tobytes()
    if value.strides is not None:
        assert held.stride() == value.strides


def test_a_program_runs_on_torch_tensors_as_on_arrays() -> None:
    pytest.importorskip("torch")
    source = "def program(x0, x1):\n    return (x0 + x1).sum(axis=0), x0 * 2\n"
    program = WrittenProgram(source, (ArrayValue((4, 6), "f32", "normal", 3, (1, 4)), ArrayValue((6,), "f32")))
    for out in ("new", "strided", "onto"):
        way = Way("fused", (("backend", "numba_cpu"),), out=out)
        assert run(program, way, expectation(program), InTorch("cpu")).plans


def test_programs_with_negative_strides_go_to_a_library_that_has_them() -> None:
    backwards = ArrayValue((4,), strides=(-1,))
    assert carrier_of("numba_cuda", [ArrayValue((4,)), backwards]) == InCuPy()
    assert carrier_of("numba_cuda", [ArrayValue((4,))]) == InTorch("cuda")
    assert carrier_of("numba_cpu", [backwards]) == OnHost()


def test_what_no_library_holds_is_told_apart_from_a_failure() -> None:
    pytest.importorskip("cupy")
    with pytest.raises(NoSuchArray, match="bfloat16"):
        InCuPy().put(ArrayValue((4,), "bf16", strides=(-1,)))


def test_memory_around_an_array_is_part_of_the_value() -> None:
    value = ArrayValue((2, 3), "f32", "normal", 0, (-3, 1), 2)
    memory, start, strides = value.memory()
    made = value.made()
    assert (start, strides) == (5, (-3, 1))
    compare(made[0], memory[start : start + 3].astype(np.float64), np.zeros(3), "first row")


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "i32", "u8", "bool"])
def test_what_lies_around_an_array_shows_in_any_result(dtype: str) -> None:
    """Sums of rows of 20 held what lies behind their array, where that was zero in every random program."""
    memory, start, _ = ArrayValue((3, 5), dtype, "whole", 1, offset=3).memory()
    around = np.concatenate([memory[:start], memory[start + 15 :]])
    assert start == 3 and memory.nbytes - (start + 15) * memory.itemsize >= 256
    if memory.dtype.kind in "biu":
        assert around.min() == (True if dtype == "bool" else np.iinfo(memory.dtype).max)
    else:
        assert np.isnan(around.astype(np.float64)).all()
