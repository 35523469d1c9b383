"""One row of the operation table on random arguments, by any runner, against NumPy in float64.

    python -m tests.frontend.op_check [--backend reference|interpreter|numba_cpu] [--seconds 300] [--seed 0] [WORD ...]
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import polyfuse as pf
from polyfuse.errors import PolyfuseError
from tests.frontend import op_draws
from tests.frontend.op_draws import Array
from tests.frontend.op_rows import CASES, Row
from tests.frontend.ops import run

Runner = Callable[[Callable[..., Any], dict[str, Array]], Any]
EPSILON = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-13}


def by_reference(function: Callable[..., Any], arguments: dict[str, Array]) -> Any:
    return run(function, *arguments.values())


def by_backend(backend: str) -> Runner:
    def call(function: Callable[..., Any], arguments: dict[str, Array]) -> Any:
        return pf.jit(function, backend=backend)(*arguments.values())

    return call


def drawn(row: Row, rng: random.Random) -> tuple[Callable[..., Any], dict[str, Array]]:
    """The function of a row with its numbers filled in, and its arguments."""
    parts = [part.split(":") for part in row.arrays.split()]
    found = op_draws.shapes(rng, {name: shape for name, shape, *_ in parts})
    arguments: dict[str, Array] = {}
    for name, _, *kind in parts:
        if name in found:
            dtype = rng.choice(op_draws.KINDS[kind[0]])
            arguments[name] = op_draws.values(rng, found[name], dtype, row.domain, row.special)
    numbers: dict[str, Any] = {"np": np}
    code = compile(f"lambda {', '.join(name for name, *_ in parts)}: {row.text}", f"<{row.text}>", "eval")
    used = names_in(code)
    first = next(iter(arguments.values()))
    for name, draw in op_draws.NUMBERS.items():
        if name in used or any(shape == f"@{name}" for _, shape, *_ in parts):
            numbers[name] = draw(rng, first)
    for name, shape, *_ in parts:
        if shape.startswith("@"):
            extent = first.shape[numbers[shape[1:]]] if shape[1:] else first.size
            arguments[name] = op_draws.indices(rng, extent)
    return eval(code, numbers), {name: arguments[name] for name, *_ in parts}


def names_in(code: Any) -> set[str]:
    return set(code.co_names) | {n for c in code.co_consts if hasattr(c, "co_names") for n in names_in(c)}


def widened(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def flat(value: Any) -> list[Any]:
    return [v for part in value for v in flat(part)] if isinstance(value, (tuple, list)) else [value]


def expected(row: Row, function: Callable[..., Any], arguments: dict[str, Array]) -> list[tuple[Array, Array]]:
    """NumPy's result in the dtypes of the arguments, and in float64.  Raises what NumPy raises."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = [np.asarray(v) for v in flat(function(*arguments.values()))]
        if row.own:
            return [(v, v) for v in own]
        wide = [np.asarray(v) for v in flat(function(*map(widened, arguments.values())))]
    return list(zip(own, wide, strict=True))


def check(row: Row, rng: random.Random, runner: Runner) -> str:
    """"ok", or "refused" where NumPy raises too.  Raises AssertionError with what differs."""
    function, arguments = drawn(row, rng)
    shown = ", ".join(f"{n}: {a.dtype}{list(a.shape)}" for n, a in arguments.items())
    shown += f"; {({k: v for k, v in function.__globals__.items() if k in op_draws.NUMBERS})}"
    try:
        wanted = expected(row, function, arguments)
    except Exception as error:
        try:
            runner(function, arguments)
        except (PolyfuseError, TypeError, np.linalg.LinAlgError):
            return "refused"
        raise AssertionError(f"NumPy raises {error!r}, this does not: {shown}") from None
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = [np.asarray(v) for v in flat(runner(function, arguments))]
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}: {shown}") from error
    assert len(got) == len(wanted), f"{len(got)} results, not {len(wanted)}: {shown}"
    for value, (own, wide) in zip(got, wanted, strict=True):
        compare(value, own, wide, row.loose, coarsest(arguments), shown)
    return "ok"


def coarsest(arguments: dict[str, Array]) -> float:
    """The rounding of the narrowest float among the arguments."""
    return max((EPSILON[str(a.dtype)] for a in arguments.values() if a.dtype.kind == "f"), default=0.0)


def compare(got: Array, own: Array, wide: Array, loose: float, rounding: float, shown: str) -> None:
    assert got.shape == own.shape, f"shape {got.shape}, not {own.shape}: {shown}"
    assert got.dtype == own.dtype, f"dtype {got.dtype}, not {own.dtype}: {shown}"
    if own.dtype.kind != "f":
        assert np.array_equal(got, wide), f"{got} is not {wide}: {shown}"
        return
    limit = max(EPSILON[str(own.dtype)], rounding) * loose
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64), wide.astype(own.dtype).astype(np.float64)
        finite = np.abs(b[np.isfinite(b)])
        near = np.abs(a - b) <= limit * (np.abs(b) + finite.max(initial=0.0) * 0.1 + 1)
    same = near | (a == b) | (np.isnan(a) & np.isnan(b))
    assert same.all(), f"{got[~same][:4]} is not {wide[~same][:4]}: {shown}"


RUNNERS: dict[str, Runner] = {
    "reference": by_reference,
    "interpreter": by_backend("interpreter"),
    "numba_cpu": by_backend("numba_cpu"),
}


def sweep(rows: list[Row], runner: Runner, seconds: float, seed: int, times: int = 10**9) -> int:
    """Row after row until the time is up; prints every row that fails, once.  The number of rows that failed."""
    start, failed, done, refused = time.time(), set[str](), 0, 0
    for turn in range(times):
        for row in rows:
            if time.time() - start > seconds:
                break
            done += 1
            try:
                refused += check(row, random.Random(f"{seed} {turn} {row.text} {row.arrays}"), runner) == "refused"
            except Exception as error:
                if row.text not in failed:
                    print(f"FAIL {row.text}   [{row.arrays}]\n     {str(error)[:600]}", flush=True)
                if not isinstance(error, AssertionError):
                    traceback.print_exc(limit=-3)
                failed.add(row.text)
    spent = time.time() - start
    print(f"{done} calls of {len(rows)} rows, {refused} refused by both, {len(failed)} failed, {spent:.0f} s")
    return len(failed)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*", help="only rows that contain one of these")
    parser.add_argument("--backend", choices=RUNNERS, default="reference")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--times", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = [row for row in CASES if not options.words or any(word in row.text for word in options.words)]
    return min(sweep(rows, RUNNERS[options.backend], options.seconds, options.seed, options.times), 1)


if __name__ == "__main__":
    sys.exit(main())
