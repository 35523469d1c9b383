"""Spans of memory: slots in any order, with gaps between loads, are a few wide accesses, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polyfuse import dtypes
from polyfuse.affine import Affine
from polyfuse.backends.interpreter import faults, run_kernel, run_source
from polyfuse.codegen.printer import print_kernel
from polyfuse.dtypes import u8
from polyfuse.errors import KernelError
from polyfuse.kernel import Barrier, Const, Kernel, Load, SharedBuffer, Slot, Store
from polyfuse.spans import Step, spans
from polyfuse.terms import Inside, Ref
from polyfuse.verify.kernel import verify_kernel
from tests.kernel.kernels import T, V, array

COLOUR = Affine.symbol("$o")
LOAD = Load("xv", "x", (4 * T + V, COLOUR), span=16)
STORE = Store("y", (4 * T + V, COLOUR), Ref("xv", u8), span=4)


def pixels(load: Load = LOAD, store: Store = STORE, threads: int = 8, **fields: object) -> Kernel:
    """Three of four bytes of each of four pixels a thread."""
    parameters = (array("x", 32, 4, dtype=u8), array("y", 32, 3, dtype=u8, out=True))
    slots = (Slot("o", 3), Slot("v", 4))
    kernel = Kernel("pixels", parameters, (Affine.of(1),), threads, (), slots, (), (load, store))
    return replace(kernel, **fields)  # type: ignore[arg-type]


def test_slots_are_dealt_to_spans() -> None:
    three_of_three = (Step("o", 3, 1), Step("v", 4, 3))
    found = spans(three_of_three, 4)
    assert found is not None and (len(found.numbers), found.varying, found.whole) == (3, {"o", "v"}, True)
    gaps = spans((Step("o", 3, 1), Step("v", 4, 4)), 16)
    assert gaps is not None and (len(gaps.numbers), gaps.whole) == (1, False)
    apart = spans((Step("u", 2, None), Step("v", 4, 1)), 4)
    assert apart is not None and (len(apart.numbers), apart.varying, apart.whole) == (2, {"v"}, True)
    later = spans((Step("v", 4, 2),), 4, first=3)
    assert later is not None and len(later.numbers) == 3
    again = spans((Step("v", 4, 0),), 1)
    assert again is not None and (len(again.numbers), again.whole) == (1, False)
    assert spans((Step("v", 300, 1),), 4) is None


@pytest.mark.parametrize("printed", [False, True])
def test_a_kernel_with_spans_moves_the_same_elements(printed: bool) -> None:
    kernel = pixels()
    verify_kernel(kernel)
    x = np.arange(128, dtype=np.uint8).reshape(32, 4)
    arrays = {"x": x, "y": np.zeros((32, 3), np.uint8)}
    if printed:
        text = print_kernel(kernel)
        assert "Tile((3, 4), (1, 4), span=16)" in text and "Tile((3, 4), (1, 3), span=4)" in text
        run_source(text, "pixels", kernel, arrays, {}, {})
    else:
        run_kernel(kernel, arrays, {}, {})
    np.testing.assert_array_equal(arrays["y"], x[:, :3])


def test_loads_a_few_elements_further_on_take_the_same_spans() -> None:
    last = replace(LOAD, index=(4 * T + V, Affine.of(3)))
    kernel = pixels(last, replace(STORE, index=(4 * T + V, COLOUR), span=4))
    verify_kernel(kernel)
    text = print_kernel(kernel)
    assert "Tile((1, 4), (0, 4), span=16, first=3)" in text and "load(x, 16 * thread()," in text
    x = np.arange(128, dtype=np.uint8).reshape(32, 4)
    arrays = {"x": x, "y": np.zeros((32, 3), np.uint8)}
    run_source(text, "pixels", kernel, arrays, {}, {})
    np.testing.assert_array_equal(arrays["y"], np.repeat(x[:, 3:], 3, axis=1))


def staged(pitch: int, load: Load) -> Kernel:
    """Three bytes of each of four pixels a thread, through shared memory."""
    put = Store("s", (4 * T + V, COLOUR), Ref("xv", u8), span=4 if pitch == 3 else 1)
    shared = (SharedBuffer("s", u8, (32, 3), (pitch, 1)),)
    parameters = (array("x", 32, 3, dtype=u8), array("y", 32, 3, dtype=u8, out=True))
    return pixels(parameters=parameters, shared=shared, body=(replace(LOAD, span=4), put, Barrier(), load, GOT))


GET = Load("sv", "s", (31 - 4 * T - V, COLOUR), span=4)
GOT = Store("y", (4 * T + V, COLOUR), Ref("sv", u8), span=4)


@pytest.mark.parametrize("printed", [False, True])
def test_shared_memory_has_spans_too(printed: bool) -> None:
    kernel = staged(3, GET)
    verify_kernel(kernel)
    x = np.arange(96, dtype=np.uint8).reshape(32, 3)
    arrays = {"x": x, "y": np.zeros((32, 3), np.uint8)}
    if printed:
        run_source(print_kernel(kernel), "pixels", kernel, arrays, {}, {})
    else:
        run_kernel(kernel, arrays, {}, {})
    np.testing.assert_array_equal(arrays["y"], x[::-1])


FALSE = Const(False, dtypes.bool_)
REFUSED = {
    "gaps in a store": (pixels(store=replace(STORE, span=16)), "have gaps"),
    "three elements": (pixels(replace(LOAD, span=3)), "a power of two of elements"),
    "more than an access": (pixels(replace(LOAD, span=32)), "at most 16 bytes"),
    "a vector as well": (pixels(replace(LOAD, vector=4)), "is no vector"),
    "a condition inside": (pixels(replace(LOAD, where=(2 - V,))), "varies over v inside a span"),
    "a mask inside": (pixels(replace(LOAD, mask=Inside((1 - COLOUR,)))), "varies over o inside a span"),
    "between spans": (pixels(replace(LOAD, index=(2 * T + V, COLOUR))), r"\$t moves the address by 8"),
    "gaps in shared memory": (staged(4, GET), "have gaps"),  # the last one may end behind it
    "between spans of shared memory": (
        staged(3, replace(GET, index=(2 * T + V, COLOUR))),
        r"\$t moves the address by 6",
    ),
    "an array anywhere": (
        pixels(parameters=(array("x", 32, 4, dtype=u8, alignment=4), array("y", 32, 3, dtype=u8, out=True))),
        "aligned to 4 bytes only",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_verifier_says_what_is_no_span(case: str) -> None:
    kernel, sentence = REFUSED[case]
    with pytest.raises(KernelError, match=sentence):
        verify_kernel(kernel)


@pytest.mark.parametrize("printed", [False, True])
@pytest.mark.parametrize("case", ["gaps in a store", "a condition inside", "between spans"])
def test_the_interpreter_finds_what_is_no_span(case: str, printed: bool) -> None:
    kernel, _ = REFUSED[case]
    arrays = {"x": np.zeros((32, 4), np.uint8), "y": np.zeros((32, 3), np.uint8)}
    with pytest.raises(faults.MisalignedVector, match="a span is not aligned"):
        if printed:
            run_source(print_kernel(kernel), "pixels", kernel, arrays, {}, {})
        else:
            run_kernel(kernel, arrays, {}, {})


@pytest.mark.ptx
def test_spans_are_instructions_of_that_width() -> None:
    from polyfuse.backends.numba_cuda.compile import compile_kernel

    kernel = pixels()
    ptx = compile_kernel(print_kernel(kernel), "pixels", kernel.parameters, 8, (9, 0)).ptx
    assert ptx.count("ld.global.nc.v4.u32") == 1 == ptx.count("ld.global")
    assert ptx.count("st.global.u32") == 3 == ptx.count("st.global")


@pytest.mark.ptx
def test_spans_with_masks_are_predicated() -> None:
    from polyfuse.backends.numba_cuda.compile import compile_kernel

    kernel = pixels(replace(LOAD, where=(5 - T,), other=Const(7, u8)), replace(STORE, where=(6 - T,)))
    verify_kernel(kernel)
    ptx = compile_kernel(print_kernel(kernel), "pixels", kernel.parameters, 8, (9, 0)).ptx
    assert ptx.count("@p ld.global.nc.v4.b32") == 1 == ptx.count("ld.global")
    assert ptx.count("@p st.global.b32") == 3 == ptx.count("st.global")
