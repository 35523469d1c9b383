"""The page of NumPy's functions and methods: what each of them does in a jitted function, found out by tracing it.

python -m tests.project.functions docs/functions.md      writes the page
"""

from __future__ import annotations

import random
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import polyfuse as pf
from polyfuse import nn
from polyfuse.errors import PolyfuseError, UnsupportedError
from polyfuse.expr import Opaque, Scatter, topological
from polyfuse.frontends.numpy_like import bisection, functions, networks, specs_of_arrays, trace
from polyfuse.frontends.numpy_like.refusals import ALTERNATIVES, ATTRIBUTES
from polyfuse.frontends.numpy_like.registry import CREATION, TABLE
from polyfuse.frontends.numpy_like.tracer import METHODS, Tracer
from tests.frontend.op_check import drawn
from tests.frontend.op_rows import CASES

WORKS, CALL, NUMPY, REFUSED = "works", "library call", "NumPy's own", "refused"
MODULES = {"numpy": np, "numpy.linalg": np.linalg, "numpy.fft": np.fft}
LEFT_OUT = frozenset("test get_include show_config show_runtime".split())
OF_NUMBERS = frozenset(  # an array gets the alternative; what they are for is answered by NumPy
    "bartlett blackman hamming hanning kaiser base_repr binary_repr format_float_positional format_float_scientific "
    "mask_indices printoptions".split()
)

# Calls of what the table of operations has no row for; the first that traces says what the function does.
X = np.array([[4.0, 1.0], [1.0, 3.0]])
MASK, PLACES = X > 1, np.array([1, 0])
ARGUMENTS = (
    "x; x, x; x, m; x, 1; x, 0, 1; x, x, 1; v; v, v; v, 1; v, v, v; [x, x]; [v, v]; m; m, m; p; p, p; p, 1; p, (2, 2); "
    "(p, p), (2, 2); p, [x, x]; 2; 2, 2; (2, 2); (2, 2), 1; 0, 1, 3; 1, 2; x, m, x; [m], [x]; m, [x, x]; x, (2, 2); "
    "lambda i, j: i + j, (2, 2); x, [1]; x, p, 0; x, p, x; x, p, v; v, p, 1; 'ij,jk', x, x; np.sum, x, (0, 1); "
    "(0, 1), v; 'a', x; x, 'a'; x, x, x; 'cpu'; [True, False], 0; m, v; p, v; p[:, None], 1.0, 1"
).split(";")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the page; `note`: the library's functions that are called, or what to write instead."""

    name: str
    state: str
    note: str = ""


def entries(module: str) -> list[Entry]:
    """Every public function of a module of NumPy."""
    found = MODULES[module]
    names = [n for n in dir(found) if not n.startswith("_") and n not in LEFT_OUT]
    is_function = [n for n in names if callable(v := getattr(found, n)) and not isinstance(v, type)]
    return [
        entry(f"{module.removeprefix('numpy').lstrip('.')}.{n}".lstrip("."), getattr(found, n)) for n in is_function
    ]


def entry(name: str, function: Any) -> Entry:
    with of_long_axes():
        return _entry(name, function)


@contextmanager
def of_long_axes() -> Iterator[None]:
    """Nothing is short enough to be sorted, or searched, in the program itself."""
    none = {"ALL": 0, "FEW": 0, "PLACED": 0}
    with patch.multiple(networks, **none), patch.object(bisection, "STEPS", (0,)):
        yield


def _entry(name: str, function: Any) -> Entry:
    full = next((n for n in (name, getattr(function, "__name__", name)) if n in TABLE or n in CREATION), None)
    if full is None:
        refused = (
            (name in ALTERNATIVES and name not in OF_NUMBERS)
            or hasattr(function, "_implementation")
            or isinstance(function, np.ufunc)
        )
        if not refused:
            return Entry(name, NUMPY)
        return Entry(name, REFUSED, said_by(name, function))
    in_place = f"(y := x.copy(), np.{name}(y, {{}}), y)[-1]"
    made = [*samples(f"np.{name}({{}})", full in CREATION), *samples(in_place)]
    return judged(name, [*made, *rows(rf"(?<![.\w])np\.{re.escape(name)}\(")])


def judged(name: str, calls: Iterator[tuple[Callable[..., Any], list[Any]]] | list[Any]) -> Entry:
    """What the first call that traces does; refused where all that NumPy takes are."""
    advice = ""
    for function, arguments in calls:
        try:
            nodes = list(topological(trace(function, specs_of_arrays(arguments)).program.outputs))
        except UnsupportedError as error:
            advice = advice or error.advice
        except (PolyfuseError, TypeError, ValueError, IndexError, KeyError, AttributeError):
            continue
        else:
            names = {n.call.name for n in nodes if isinstance(n, Opaque)}
            names |= {"scatter" for n in nodes if isinstance(n, Scatter)}
            return Entry(name, CALL, ", ".join(sorted(names))) if names else Entry(name, WORKS)
    assert advice, f"{name}: no call of it can be traced; add one to ARGUMENTS or to the table of operations"
    return Entry(name, REFUSED, advice)


def rows(pattern: str) -> Iterator[tuple[Callable[..., Any], list[Any]]]:
    """Rows of the table of operations that hold the call, with arrays that are not empty."""
    for row in CASES:
        if re.search(pattern, row.text):
            for seed in range(12):
                function, arguments = drawn(row, random.Random(f"{seed} {row.text}"))
                if all(a.size for a in arguments.values()):
                    yield function, list(arguments.values())
                    break


def samples(call: str, without_arrays: bool = False) -> Iterator[tuple[Callable[..., Any], list[Any]]]:
    """The call with each of ARGUMENTS that NumPy takes and has a result for."""
    for text in ("", *ARGUMENTS):
        if not without_arrays and not re.search(r"\b[xmpv]\b", text):
            continue
        function = eval(f"lambda x, m, p, v: {call.format(text.strip())}", {"np": np})
        arguments = [X.copy(), MASK.copy(), PLACES.copy(), X[0].copy()]
        try:
            if function(*(a.copy() for a in arguments)) is not None:
                yield function, arguments
        except Exception:
            continue


def said_by(name: str, function: Any) -> str:
    """What the error says to write; raises AssertionError where a call of a refused function is not an error."""
    for text in ARGUMENTS:
        called = eval(f"lambda x, m, p, v: np.{name}({text.strip()})", {"np": np})
        try:
            trace(called, specs_of_arrays([X, MASK, PLACES, X[0]]))
        except UnsupportedError as error:
            return error.advice
        except (PolyfuseError, TypeError, ValueError, IndexError, KeyError, AttributeError):
            continue
    raise AssertionError(f"np.{name} is refused, and no call of it says so")


def methods() -> list[Entry]:
    """Every public attribute and method of ndarrays."""
    found = []
    for name in (n for n in dir(np.ndarray) if not n.startswith("_")):
        if name in ATTRIBUTES:
            found.append(Entry(name, REFUSED, ATTRIBUTES[name]))
        elif name in METHODS or callable(getattr(Tracer, name, None)):
            made = [call for array in "xvp" for call in samples(f"{array}.{name}({{}})", True)]
            in_place = list(samples(f"(y := x.copy(), y.{name}({{}}), y)[-1]", True))
            with of_long_axes():
                found.append(judged(name, [*made, *in_place, *rows(rf"(?<!\w)x\.{name}\(")]))
        else:
            assert hasattr(Tracer, name), f"ndarray.{name} is neither there nor refused with an alternative"
            found.append(Entry(name, WORKS))
    return found


# ---------------------------------------------------------------------------------------------- the page

VERSION = np.__version__.rpartition(".")[0]
HEAD = f"""# What NumPy has, and what jitted functions make of it

Generated by `python -m tests.project.functions docs/functions.md` from the tables of the frontend and NumPy {VERSION},
by tracing a call of each function; a test compares. The states are

- **works**: part of the program, fused like everything else. The same functions are there as `pf.sum`,
  many as methods (`x.sum()`), and those of the Array API standard through `__array_namespace__`.
- **library call**: a call of the caller's array library (NumPy, CuPy, PyTorch) between kernels, shown in the plan.
  Axes of up to {networks.ALL} elements ({networks.FEW} for medians and quantiles, {networks.PLACED} for positions) are
  sorted, and up to {(1 << bisection.STEPS[-1]) - 1} keys or edges searched, in the program itself.
- **NumPy's own**: takes numbers, shapes, dtypes or settings and no arrays; NumPy answers while the function is traced.
- **refused**: an error with the user's line, and what to write instead.

`numpy.polynomial` is traced as the user's code is: `polyval(x, c)`, `chebval`, `Polynomial(c)(x)` and the like take
coefficients that are constants or arguments, of which zeros at the end are kept. Roots and fits are refused.
"""


def page() -> str:
    parts = [HEAD]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for module in MODULES:
            parts.append(section(f"Functions of `{module}`", entries(module)))
        parts.append(section("Attributes and methods of arrays", methods()))
    parts.append(beyond("Beyond NumPy: `pf`", {n: functions.public(n) for n in own_names()}))
    parts.append(beyond("Random numbers: `pf.random`", {n: getattr(pf.random, n) for n in pf.random.__all__}))
    parts.append(beyond("Neural networks: `pf.nn`", {n: getattr(nn, n) for n in nn.__all__}))
    return "\n".join(parts)


def section(title: str, found: list[Entry]) -> str:
    counts = Counter(e.state for e in found)
    lines = [
        f"## {title}",
        "",
        ", ".join(f"{counts[s]} {s}" for s in (WORKS, CALL, NUMPY, REFUSED) if counts[s]) + ".",
        "",
    ]
    for state in (WORKS, NUMPY):
        if names := [e.name for e in found if e.state == state]:
            lines += [f"**{state}**: {', '.join(f'`{n}`' for n in names)}", ""]
    for state, heading in ((CALL, "calls"), (REFUSED, "instead")):
        if some := [e for e in found if e.state == state]:
            lines += [f"| {state} | {heading} |", "|---|---|", *(f"| `{e.name}` | {e.note} |" for e in some), ""]
    return "\n".join(lines)


def own_names() -> list[str]:
    return [n for n in functions.names() if not hasattr(np, n) and not hasattr(np.ndarray, n)]


def beyond(title: str, found: dict[str, Any]) -> str:
    lines = [f"## {title}", "", "| function | |", "|---|---|"]
    for name, function in found.items():
        text = " ".join((function.__doc__ or "Elementwise.").split("\n\n")[0].split())
        lines.append(f"| `{name}` | {text.replace('|', chr(92) + '|')} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        Path(argument).write_text(page())
