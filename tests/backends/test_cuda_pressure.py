"""Registers that hold something needed, counted in PTX."""

from __future__ import annotations

import pytest

from polyfuse.backends.numba_cuda.pressure import pressure


def kernel(*lines: str) -> str:
    return "\n".join([".visible .entry k(", ")", "{", *lines, "}"])


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], 0),
        (["ret;"], 0),
        (["ld.global.v2.u32 {%r1, %r2}, [%rd4];", "add.f32 %r3, %r1, %r2;", "st.global.u32 [%rd4], %r3;"], 4),
        (["mov.u32 %r1, %tid.x;", "mov.u32 %r2, 1;", "st.shared.v2.u32 [buffer], {%r1, %r2};"], 2),
        (["mov.f64 %fd1, 0d0;", "setp.lt.f64 %p1, %fd1, %fd1;"], 2),  # predicates take no register
        (["mov.u32 %r1, 1;", "@%p1 mov.u32 %r1, 2;", "st.shared.u32 [%r2], %r1;"], 2),
    ],
)
def test_of_a_straight_line(lines: list[str], words: int) -> None:
    assert pressure(kernel(*lines)) == words


def test_what_a_loop_reads_again_is_needed_in_all_of_it() -> None:
    loop = [
        "mov.u32 %r1, 0;",
        "mov.u32 %r2, 5;",
        "$L__BB0_1:",
        "add.u32 %r3, %r1, 1;",
        "mul.u32 %r4, %r3, %r3;",
        "add.u32 %r1, %r4, %r2;",  # beside %r2, which the next trip reads
        "setp.lt.u32 %p1, %r1, 9;",
        "@%p1 bra $L__BB0_1;",
        "ret;",
    ]
    assert pressure(kernel(*loop)) == 2
    assert pressure(kernel(*loop[:-1], "st.shared.u32 [buffer], %r3;", "ret;")) == 3  # read behind the loop


def test_branches_are_followed_apart() -> None:
    branches = [
        "mov.u32 %r1, 1;",
        "@%p1 bra $L__BB0_2;",
        "mov.u32 %r2, 2;",
        "st.shared.v2.u32 [buffer], {%r1, %r2};",
        "bra.uni $L__BB0_3;",
        "$L__BB0_2:",
        "mov.u64 %rd1, 3;",
        "st.shared.u64 [buffer], %rd1;",
        "$L__BB0_3:",
        "ret;",
    ]
    assert pressure(kernel(*branches)) == 2
