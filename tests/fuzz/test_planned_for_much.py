"""Random programs of several results, planned for sizes where sums go in two stages and scans in parts, at small ones.

The programs of `polyfuse.fuzz` are planned for the arrays that they run on, which are small.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.bindings import is_advisory
from polyfuse.face.interpreted import run_plan
from polyfuse.plan import Plan
from polyfuse.testing import assert_legal

SIZES = [(1_000_000, 64), (8192, 8192), (300, 400_000), (100_000, 256), (16_384, 4096), (2_000_000, 28), (5000, 3001)]
SHAPES = [(5, 37), (67, 130), (131, 64), (40, 513), (3, 1100)]
FIXED = 300  # columns up to which their number may be known
UNARY = ["{0} * 2", "np.abs({0})", "np.maximum({0}, 0)", "{0} + 1", "-{0}", "{0} * {0}", "({0} >= 1) * 1.0"]
VIEWS = [("{0}[:, -1]", "i"), ("{0}[:, 0]", "i"), ("{0}[-1]", "j"), ("{0}[:, ::-1]", "ij")]
"""Of matrices, and what the result spans."""
SPREAD = {"ij": "{0}", "j": "{0}[None, :]", "i": "{0}[:, None]", "": "{0}"}
PROGRAMS = 12  # of one test


def drawn(dice: Random) -> str:
    """A function of a matrix ``x``, a row ``g`` and a column ``h``; its values stay small whole numbers, or nearly."""
    spans, lines = {"x": "ij", "g": "j", "h": "i"}, list[str]()
    for number in range(dice.randint(4, 11)):
        name, other = dice.choice(list(spans)[-4:]), dice.choice(list(spans))
        span, both, kind = spans[name], {spans[name], spans[other]}, dice.random()
        if kind < 0.25:
            text = dice.choice(UNARY).format(name)
        elif kind < 0.55:
            left, right = SPREAD[spans[name]].format(name), SPREAD[spans[other]].format(other)
            left, right = (name, other) if len(both) == 1 or "" in both else (left, right)
            span = "ij" if "ij" in both or both >= {"i", "j"} else max(both)
            text = dice.choice(["{0} + {1}", "{0} - {1}", "np.clip({0} * {1}, -8, 8)", "np.maximum({0}, {1})"])
            text = text.format(left, right)
        elif kind < 0.85 and span:
            axis = dice.choice(["0", "1", "None"]) if span == "ij" else "0"
            span = {"0": "j", "1": "i", "None": ""}[axis] if span == "ij" else ""
            text = dice.choice(["np.clip(np.sum({0}, {1}), -9, 9)", "np.max({0}, {1})", "np.mean({0}, {1})"])
            text = text.format(name, axis)
        elif kind < 0.92 and span == "ij":
            text = f"np.clip(np.cumsum({name}, {dice.choice('01')}), -9, 9)"
        elif span == "ij":
            text, span = dice.choice(VIEWS)
            text = text.format(name)
        else:
            continue
        lines.append(f"    v{number} = {text}\n")
        spans[f"v{number}"] = span
    made = [name for name in spans if name not in "xgh"]
    results = sorted({*dice.sample(made, min(len(made), dice.randint(1, 3))), *made[-1:]})
    return f"def program(x, g, h):\n{''.join(lines)}    return ({', '.join(results)},)\n" if results else ""


def holds(plan: Plan, sizes: dict[str, int]) -> bool:
    return all(guard.holds(sizes) for guard in plan.guards if not is_advisory(guard))


def run(program: Callable[..., Any], plan: Plan, rows: int, columns: int) -> None:
    dice = np.random.default_rng(rows)
    arrays = [dice.integers(-3, 4, shape).astype(np.float32) for shape in ((rows, columns), columns, rows)]
    with np.errstate(all="ignore"):
        wanted = program(*[a.astype(np.float64) for a in arrays])
        found = run_plan(plan, arrays)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one, np.float64), other, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("seed", range(6))
def test_results_are_those_of_numpy(seed: int) -> None:
    dice, times = Random(seed), 0
    for _ in range(PROGRAMS):
        text = drawn(dice)
        if not text:
            continue
        scope: dict[str, Any] = {"np": np}
        exec(text, scope)
        rows, columns = dice.choice(SIZES)
        known = columns if columns <= FIXED and dice.random() < 0.7 else 0
        width = str(columns) if known else f"M~{columns}"
        specs = [pf.spec(f"f32[{shape}]") for shape in (f"N~{rows}, {width}", width, f"N~{rows}")]
        plan = pf.jit(scope["program"], verify=True).plan(*specs, target="h200")
        assert_legal(plan)
        shapes = [(n, known or m) for n, m in SHAPES if holds(plan, {"N": n, "M": known or m})]
        for shape in shapes[:2]:
            run(scope["program"], plan, *shape)
            times += 1
    assert times > PROGRAMS // 2
