"""What the dispatcher knows of an array, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyfuse.bindings import Layout
from polyfuse.dtypes import f32
from polyfuse.errors import ArgumentError
from polyfuse.run.arrays import ArrayFacts, host_pointer, share
from polyfuse.run.libraries import library_of
from polyfuse.run.libraries.numpy_arrays import NUMPY


def facts(array: np.ndarray) -> ArrayFacts:
    return NUMPY.facts(array)


BASE = np.zeros((6, 8), np.float32)


@pytest.mark.parametrize(
    ("array", "strides"),
    [
        (BASE, None),
        (BASE[:1], None),
        (BASE[:, :1][:1], None),
        (BASE[:0], None),
        (BASE.T, (1, None)),
        (BASE[:, ::2], (None, None)),
        (BASE[::-1], (None, 1)),
        (np.broadcast_to(BASE[0], (6, 8)), (0, 1)),
        (BASE[:, 3:4], (None, 0)),
        (np.zeros((), np.float32), None),
    ],
)
def test_layout_classes(array: np.ndarray, strides: tuple[int | None, ...] | None) -> None:
    assert facts(array).layout.strides == strides


def test_alignment_is_that_of_a_vector_or_of_an_element() -> None:
    memory = np.zeros(256, np.uint8)
    start = -memory.ctypes.data % 64
    assert facts(memory[start : start + 64].view(np.float32)).layout == Layout(None, 16)
    assert facts(memory[start + 4 : start + 68].view(np.float32)).layout == Layout(None, 4)
    odd = facts(memory[start + 1 : start + 65].view(np.float32))
    assert not odd.is_aligned


@given(st.data())
def test_pointer_and_span_are_those_of_numpy(data: st.DataObject) -> None:
    array = np.zeros((5, 6, 7), np.int16)
    slices = st.slices(5), st.slices(6), st.slices(7)
    view = array[tuple(data.draw(s) for s in slices)]
    known = facts(view)
    assert known.pointer == host_pointer(view) == view.ctypes.data
    assert known.span == (np.lib.array_utils.byte_bounds(view) if view.size else (known.pointer, known.pointer))


@given(st.data())
def test_arrays_share_what_numpy_says(data: st.DataObject) -> None:
    array = np.zeros((8, 10))
    a, b = (array[data.draw(st.slices(8)), data.draw(st.slices(10))] for _ in range(2))
    if a.size and b.size:
        assert share(facts(a), facts(b)) == np.shares_memory(a, b)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros(3, np.complex64), "real and the imaginary"),
        (np.zeros(3, object), "numeric dtype"),
        (np.zeros(3, ">f4"), "byte order"),
        (np.zeros(3, "datetime64[s]"), "int64"),
        (np.zeros(3, "U4"), "Text"),
        (np.zeros(3, [("a", "f4")]), "fields"),
    ],
)
def test_dtypes_that_programs_do_not_have(array: np.ndarray, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        facts(array)


def test_array_kinds_that_change_the_meaning_of_operators() -> None:
    with pytest.raises(ArgumentError, match="masked"):
        library_of(np.ma.MaskedArray)
    with pytest.raises(ArgumentError, match="matrix"):
        library_of(np.matrix)
    assert library_of(int) is None
    assert library_of(np.random.Generator) is None


def test_spans_of_arrays_with_odd_strides_are_not_asked_for() -> None:
    record = np.zeros(4, [("a", "u1"), ("b", "f4")])
    known = facts(record["b"])
    assert known.strides is None
    assert not known.is_aligned
    assert known.dtype == f32
