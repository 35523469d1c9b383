"""Assertions on plans, for the tests of programs that use polyfuse, and for our own.

    assert_schedule(plan, text)         the plan prints as this text, spaces aside
    assert_equivalent(before, after)    both compute the same, on random inputs, and what NumPy computes
    assert_legal(plan)                  every kernel is proved again
    assert_refused(...)                 something is refused, with the verdict to look at
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from polyfuse.bindings import VolumeGuard, is_advisory
from polyfuse.dtypes import DType
from polyfuse.errors import ScheduleError
from polyfuse.verdict import Hazard, Kind, Verdict

if TYPE_CHECKING:
    from polyfuse.plan import Plan

ELEMENTS = 1 << 16  # of the largest array in a run of the interpreter: a fraction of a second
TRIED = (1, 2, 3, 5, 8, 12, 17, 32, 60, 64, 100, 128, 300, 512, 1000, 1030, 2048, 4096, 5000, 17000)
TOLERANCES: Mapping[str, float] = {"f64": 1e-10, "f32": 2e-4, "f16": 2e-2, "bf16": 1e-1}
"""Relative to the largest element: what another order of summation and other roundings may change."""


def assert_schedule(plan: Plan, text: str) -> None:
    """Fails with a line-by-line difference unless the plan prints as `text`; spaces and empty lines do not matter."""
    wanted, found = _lines(text), _lines(str(plan))
    if wanted != found:
        difference = "\n".join(difflib.unified_diff(wanted, found, "expected", "planned", lineterm="", n=99))
        raise AssertionError(f"another schedule than expected\n{difference}\n\nas planned\n{plan}")


def _lines(text: str) -> list[str]:
    """Statements keep an indent, so that a difference reads like the plan."""
    found = []
    for line in text.splitlines():
        words = " ".join(line.split("#")[0].split())
        if words:
            found.append(words if words.startswith(("kernel ", "beside ", "call ")) else f"  {words}")
    return found


def assert_legal(plan: Plan) -> None:
    """Fails with the verdict unless isl proves every kernel of the plan."""
    from polyfuse.legality import prove, prove_side_by_side

    for kernel in plan.kernels:
        verdict = prove(kernel.group.scop, kernel.schedule, atomics=plan.options.atomics)
        if not verdict:
            raise AssertionError(f"kernel {kernel.name} is not legal: {verdict}\n{plan}")
    for launch in plan.launches:
        verdict = prove_side_by_side(plan.scop, launch.schedules)
        if not verdict:
            raise AssertionError(f"launch {launch.kernel.name} is not legal: {verdict}\n{plan}")


def assert_refused(
    subject: Verdict | Plan | Callable[[], object],
    *values: str,
    kind: Kind = Kind.ILLEGAL,
    hazard: Hazard | None = None,
    says: str = "",
) -> Verdict:
    """The verdict of a refusal: of a plan to compute two values in one kernel, of a call that raises ScheduleError, or
    one at hand.  Fails unless it is of that kind, violates that hazard and says those words."""
    if isinstance(subject, Verdict):
        verdict = subject
    elif callable(subject):
        verdict = _raised(subject)
    elif len(values) == 2:
        verdict = subject.why_not(*values)
    else:
        raise TypeError(f'assert_refused(plan, "x", "y") takes the names of two values, not {len(values)}')
    if verdict.kind is not kind or (hazard is not None and verdict.hazard is not hazard) or says not in str(verdict):
        wanted = ", ".join(filter(None, (kind.value, hazard.value if hazard else "", says)))
        raise AssertionError(f"expected a refusal ({wanted}), found: {verdict} (hazard: {verdict.hazard})")
    return verdict


def _raised(call: Callable[[], object]) -> Verdict:
    try:
        call()
    except ScheduleError as error:
        if isinstance(error.verdict, Verdict):
            return error.verdict
        raise AssertionError(f"refused without a verdict: {error}") from error
    raise AssertionError("nothing was refused")


# ---------------------------------------------------------------------------------------------- equivalence


def assert_equivalent(
    before: Plan, after: Plan, *, seeds: Sequence[int] = (0, 1), sizes: Sequence[Mapping[str, int]] = ()
) -> None:
    """Fails unless both plans compute the same on random inputs, and the same as NumPy does without them.

    Both run in the interpreter, at the `sizes` given, or at a few small ones for which both plans hold.
    """
    from polyfuse.face.interpreted import run_plan
    from polyfuse.reference import evaluate

    for at in sizes:
        _check_sizes(at, before, after)
    chosen = list(sizes) or list(islice(common_sizes(before, after), 2))
    if not chosen:
        raise AssertionError("no sizes small enough to be tried satisfy the guards of both plans; pass sizes=")
    for at, seed in product(chosen, seeds):
        inputs = random_inputs(before, at, seed)
        arrays = [v for a, v in zip(before.program.arguments, inputs, strict=True) if not a.is_scalar]
        scalars = [v for a, v in zip(before.program.arguments, inputs, strict=True) if a.is_scalar]
        expected = evaluate(before.program, arrays, scalars, upcast=True)
        results = [run_plan(plan, [np.array(v) for v in inputs], seed=seed) for plan in (before, after)]
        for k, output in enumerate(before.program.outputs):
            where = f"{before.program.output_names[k]} at {dict(at)}, seed {seed}"
            _close(results[0][k], expected[k], output.dtype, f"the first plan and NumPy differ in {where}")
            _close(results[1][k], results[0][k], output.dtype, f"the plans differ in {where}")


def _check_sizes(at: Mapping[str, int], *plans: Plan) -> None:
    """Raise AssertionError where `at` leaves a letter out, or has a size that no letter stands for."""
    missing = [name for plan in plans for name in plan.program.symbols if name not in at]
    if missing:
        raise AssertionError(f"sizes {dict(at)} say nothing of {missing[0]}")
    if not all(n > 0 for n in at.values()):
        raise AssertionError(f"sizes {dict(at)} are not positive: for arrays without elements there are other plans")


def common_sizes(*plans: Plan) -> Iterator[dict[str, int]]:
    """Small sizes for which the kernels of all plans are right, smallest arrays first.

    Guards that only keep a plan to the sizes that it was priced for do not count.
    """
    program = plans[0].program
    shapes = [a.shape for a in program.arguments if not a.is_scalar] + [o.shape for o in program.outputs]
    found = []
    tried = TRIED if len(program.symbols) <= 3 else TRIED[::4]
    for values in product(tried, repeat=len(program.symbols)):
        at = dict(zip(program.symbols, values, strict=True))
        extents = [[n.evaluate(at) for n in shape] for shape in shapes]
        volume = max((prod(e) for e in extents), default=1)
        if volume <= ELEMENTS and all(n > 0 for e in extents for n in e) and all(_holds(p, at) for p in plans):
            found.append((-len(set(values)), volume, values, at))
    yield from (at for _, _, _, at in sorted(found, key=lambda entry: entry[:3]))


def _holds(plan: Plan, sizes: Mapping[str, int]) -> bool:
    if any(fact.evaluate(sizes) < 0 for fact in plan.program.facts):
        return False
    for kernel in plan.kernels:
        known = dict(sizes)
        for name, factors in kernel.group.scop.program.derived:
            known[name] = prod(f.evaluate(known) for f in factors)
        binding = [g for g in kernel.guards if not isinstance(g, VolumeGuard) and not is_advisory(g)]
        if not all(g.holds(known) for g in binding):
            return False
    return True


def random_inputs(plan: Plan, sizes: Mapping[str, int], seed: int) -> list[Any]:
    """Arguments in order.  Integers are valid positions along every axis, so that they may serve as indices."""
    rng = np.random.default_rng(seed)
    arguments = plan.program.arguments
    shapes = [tuple(n.evaluate(sizes) for n in a.shape) for a in arguments]
    least = min((n for shape in shapes for n in shape), default=2)
    return [_random(rng, a.dtype, shape, least, a.is_scalar) for a, shape in zip(arguments, shapes, strict=True)]


def _random(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], least: int, is_scalar: bool) -> Any:
    match dtype.kind:
        case "b":
            values = rng.integers(0, 2, shape).astype(bool)
        case "i" | "u":
            values = rng.integers(0, max(1, min(least, 100)), shape).astype(dtype.numpy)
        case _:
            values = rng.standard_normal(shape).astype(dtype.numpy)
    return np.asarray(values).item() if is_scalar else np.asarray(values)


def _close(found: Any, expected: Any, dtype: DType, message: str) -> None:
    if not dtype.is_float:
        np.testing.assert_array_equal(found, expected, err_msg=message)
        return
    found, expected = (np.asarray(a).astype(np.float64) for a in (found, expected))
    largest = np.max(np.abs(expected[np.isfinite(expected)]), initial=1.0)
    tolerance = TOLERANCES[dtype.name]
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * largest, err_msg=message)
