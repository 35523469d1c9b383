"""Programs of rows that are apart are known, and a row that depends on the number of rows is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polyfuse.expr import Program
from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.check import check
from polyfuse.fuzz.program import WrittenProgram
from polyfuse.fuzz.rows import Batch, batch_of
from polyfuse.fuzz.ways import ALIKE_WAY, alike_way
from polyfuse.options import Options
from polyfuse.planning import planner


def written(text: str, *shapes: tuple[int, ...], fill: str = "normal") -> WrittenProgram:
    names = ", ".join(f"x{k}" for k in range(len(shapes)))
    return WrittenProgram(
        f"def program({names}):\n    return {text}\n", tuple(ArrayValue(s, fill=fill) for s in shapes)
    )


@pytest.mark.parametrize(
    ("text", "shapes", "arguments"),
    [
        ("x0 - x0.max(axis=-1, keepdims=True)", ((9, 4),), (0,)),
        ("x0 * x1, x0.sum(axis=1)", ((9, 4), (4,)), (0,)),
        ("x0 * x1[:, None]", ((9, 4), (9,)), (0, 1)),
        ("x0 + x1", ((9, 9), (9,)), (0,)),
        ("x0 @ x1", ((9, 4), (4, 7)), (0,)),
    ],
)
def test_rows_that_are_apart(text: str, shapes: tuple[tuple[int, ...], ...], arguments: tuple[int, ...]) -> None:
    assert batch_of(written(text, *shapes)) == Batch(9, arguments)


@pytest.mark.parametrize(
    "text",
    [
        "x0 - x0.max(axis=0)",
        "x0[::-1]",
        "x0 * x0[0]",
        "x0[::-1] * 0",
        "x0.sum(axis=0)",
        "x0.reshape(4, 9)",
        "np.cumsum(x0, axis=0)",
        "x0 / len(x0)",
        "(x0 > 1).any(axis=0) | (x0 > 0)",
    ],
)
def test_rows_that_are_not(text: str) -> None:
    assert batch_of(written(text, (9, 4))) is None


def test_infinity_is_near_nothing_else() -> None:
    """The least of all rows is that of each one where one holds minus infinity, but for the others alone."""
    program = written("x0 + np.nanmin(x0, axis=(0, 1), keepdims=True)", (3, 3), fill="special")
    assert batch_of(program) is None


def test_parts_hold_one_row_and_others() -> None:
    assert Batch(9, (0,)).parts == (range(1), range(1, 9), range(3, 7))
    assert Batch(2, (0,)).parts == (range(1), range(1, 2))


def test_a_row_that_depends_on_the_number_of_rows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    product = written("x0 @ x1", (64, 300), (300, 100))
    way = replace(alike_way(0, "interpreter"), options=(*OPTIONS, ("target", "sm_90")))
    assert check(product, 0, "interpreter", [way]).failure is None
    original = planner.settled

    def forgetful(options: Options, program: Program) -> Options:
        return replace(original(options, program), batch_invariant=False)

    monkeypatch.setattr(planner, "settled", forgetful)
    failure = check(product, 0, "interpreter", [way]).failure
    assert failure is not None and "rows 0 to 1 of 64 alone have other bits" in failure.text


OPTIONS = (("backend", "interpreter"), ("batch_invariant", True))


def test_programs_of_rows_run_that_way() -> None:
    report = check(written("np.exp(x0 - x0.max(axis=-1, keepdims=True))", (9, 4)), 0, "interpreter")
    assert report.failure is None
    assert ALIKE_WAY in {name for name, _ in report.plans}
    report = check(written("np.exp(x0 - x0.max(axis=0))", (9, 4)), 0, "interpreter")
    assert ALIKE_WAY not in {name for name, _ in report.plans}
