"""Values of a trace that outlive it, and state that a function changes: errors with the user's line, never old numbers.

``python -m tests.frontend.test_escapes`` rewrites the goldens after a deliberate change.
"""

from __future__ import annotations

import linecache
import pickle
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import PolyfuseError, TraceError
from tests.frontend.test_errors import read_goldens

GOLDEN = Path(__file__).with_name("escapes.txt")
X = np.arange(4.0)

# What stands in front of ``def f(x)``, and its body.
CASES: dict[str, tuple[str, str]] = {
    "attribute": ("class Config: pass\nconfig = Config()", "config.y = x * 2\nreturn x + config.y"),
    "attribute of a class": ("class Config: pass", "Config.y = x * 2\nreturn x + Config.y"),
    "attribute of the function": ("", "f.y = x * 2\nreturn x"),
    "global": ("last = None", "global last\nlast = x * 2\nreturn x"),
    "remembered global": ("last = None", "global last\nif last is None:\n    last = x * 2\nreturn x + last"),
    "outside list": ("history = []", "history.append(x * 2)\nreturn x"),
    "outside deque": ("from collections import deque\nhistory = deque()", "history.append(x * 2)\nreturn sum(history)"),
    "outside dictionary": ("seen = {}", "seen['x'] = x * 2\nreturn x"),
    "list in an object in a list": (
        "class Log:\n    def __init__(self): self.rows = []\nlogs = [Log()]",
        "logs[0].rows.append(x)\nreturn x",
    ),
    "default that is a list": ("", "def g(x, rows=[]):\n    rows.append(x * 2)\n    return rows[0]\nreturn g(x)"),
    "default of a helper": ("def g(x, rows=[]):\n    rows.append(x * 2)\n    return rows[0]", "return g(x)"),
    "size": ("class Config: pass\nconfig = Config()", "config.n = len(x)\nreturn x"),
    "selection": ("class Config: pass\nconfig = Config()", "config.positive = x[x > 0]\nreturn x"),
    "term": ("class Config: pass\nconfig = Config()", "i = pf.indices('i')\nconfig.row = x[i] * 2\nreturn x"),
    "key": ("", "table = {x: 1}\nreturn x * table[x]"),
    "element of a set": ("", "return sum({x, x * 2})"),
    "cached call": ("import functools\n@functools.lru_cache\ndef double(x): return x * 2", "return double(x)"),
    "pickle": ("import pickle", "return pickle.loads(pickle.dumps(x))"),
    "result in an object": ("class Result: pass", "r = Result()\nr.y = x * 2\nreturn r"),
    "result in a function": ("", "y = x * 2\nreturn lambda: y"),
    "result in a generator": ("", "return (x * k for k in range(3))"),
    "yield": ("", "yield x"),
    "result in a coroutine": ("async def g(x):\n    return x * 2", "return g(x)"),
    "counter": ("count = 0", "global count\ncount += 1\nreturn x * count"),
    "counter in an object": ("class Config: n = 0\nconfig = Config()", "config.n += 1\nreturn x * config.n"),
    "counter in a dictionary": ("state = {'n': 0}", "state['n'] += 1\nreturn x * state['n']"),
    "counter in a real array": ("steps = np.zeros(3)", "steps[0] += 1\nreturn x * steps[0]"),
    "list that grows": ("calls = []", "calls.append(1)\nreturn x * len(calls)"),
    "iterator": ("import itertools\nsteps = itertools.count()", "return x * next(steps)"),
    "generator": ("steps = (k for k in range(9))", "for k in steps:\n    x = x + k\nreturn x"),
}


def raised(before: str, body: str, name: str) -> str:
    """What the first call of ``f`` raises."""
    text = f"{before}\n@pf.jit\ndef f(x):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope: dict[str, Any] = {"np": np, "pf": pf, "__name__": "users"}
    exec(compile(text, file, "exec"), scope)
    try:
        scope["f"](X)
    except Exception as error:
        own = "" if isinstance(error, PolyfuseError) else "   (not of polyfuse)"
        return f"{type(error).__name__}: {error}{own}"
    return "no error"


@pytest.mark.parametrize("name", CASES)
def test_error(name: str) -> None:
    assert raised(*CASES[name], name) == read_goldens(GOLDEN)[name]


def test_goldens_name_no_other_errors() -> None:
    assert list(read_goldens(GOLDEN)) == list(CASES)


def left_over() -> Any:
    """An array of a trace that has ended."""
    kept: list[Any] = []
    with pytest.raises(TraceError):
        pf.jit(lambda x: (kept.append(x * 2), x)[1])(X)
    return kept[0]


@pytest.mark.parametrize(
    "use",
    [
        lambda old: old + 1,
        lambda old: -old,
        np.sum,
        np.asarray,
        lambda old: old[0],
        lambda old: list(old),
        lambda old: float(old.sum()),
        bool,
        lambda old: pf.jit(lambda x: x + old)(X),
        lambda old: pf.jit(lambda x: x * 2)(old),
        lambda old: old.shape[0] > 3,
        lambda old: np.zeros(4) + old.shape[0],
        lambda old: old.__setitem__(0, 1.0),
        lambda old: old.at[0].set(1),
        lambda old: np.stack([old, old]),
    ],
)
def test_what_is_left_of_a_trace_gives_no_numbers(use: Any) -> None:
    with pytest.raises(TraceError, match="has ended|outlived"):
        use(left_over())


def test_it_says_where_it_was_made() -> None:
    with pytest.raises(TraceError, match=r"test_escapes.py\", line \d+ .*kept.append\(x \* 2\)"):
        left_over() + 1
    assert repr(left_over()).startswith("Tracer(f64[")


class Model:
    def __init__(self) -> None:
        self.scale: float | None = None

    def forward(self, x: Any) -> Any:
        if self.scale is None:
            self.scale = 3.0
        return x * self.scale * self.table

    @cached_property
    def table(self) -> Any:
        return np.linspace(1, 2, 4)


SCALE: float | None = None


def remembered(x: Any) -> Any:
    global SCALE
    if SCALE is None:
        SCALE = 3.0
    return x * SCALE


def test_what_is_found_once_and_kept_is_fine() -> None:
    model = Model()
    f = pf.jit(model.forward)
    for k in (1, 2):
        np.testing.assert_array_equal(f(X * k), X * k * 3 * np.linspace(1, 2, 4))
    assert model.scale == 3.0 and type(vars(model)["table"]) is np.ndarray and f.cache_info().traces == 1
    g = pf.jit(remembered)
    for k in (1, 2):
        np.testing.assert_array_equal(g(X * k), X * k * 3)
    assert SCALE == 3.0


def test_functions_share_what_they_bind_while_they_are_traced() -> None:
    total = 0.0

    def add(value: float) -> None:
        nonlocal total
        total = total + value

    def f(x: Any) -> Any:
        nonlocal total
        total = 0.0
        add(2.0)
        add(3.0)
        return x * total

    np.testing.assert_array_equal(pf.jit(f)(X), X * 5)
    assert total == 5.0


def test_numbers_in_texts_are_the_callers() -> None:
    tables = {"w1": np.ones(4), "w2": np.full(4, 2.0)}
    f = pf.jit(lambda x, n: x * tables[f"w{n}"] + {1: 10.0, 2: 20.0}[n], backend="interpreter")
    for n in (1, 2, 1):
        np.testing.assert_array_equal(f(X, n), X * n + 10 * n)
    assert pf.jit(lambda x: (x, f"{x} {x.sum()}"), backend="interpreter")(X)[1] == "Tracer(f64[n0]) Tracer(f64[])"


@pytest.mark.parametrize("text", [lambda x: f"{x.sum():.2f}", lambda x: f"{x:.2f}", lambda x: format(x[0], "8")])
def test_digits_of_unknown_values_are_refused(text: Any) -> None:
    with pytest.raises(TraceError, match=r"the format '.*' needs the value.*(\n.*)*Write it without digits"):
        pf.jit(lambda x: (x, text(x)), backend="interpreter")(X)


def test_digits_of_known_numbers_are_the_callers() -> None:
    assert pf.jit(lambda x, n: (x, f"{n:.2f}"), backend="interpreter")(X, 1.5)[1] == "1.50"


def test_sizes_as_keys_are_integers() -> None:
    tables = {3: 10.0, 4: 20.0}

    def f(x: Any) -> Any:
        named = {"n4": 2.0}.get(f"n{len(x)}", 3.0)
        return x * named * tables.get(len(x), 1.0) + (x.shape[0] in {4, 5}) + pickle.loads(pickle.dumps(x.shape))[0]

    jitted = pf.jit(f, backend="interpreter")
    for n in (3, 4, 5, 6, 4):
        x = np.arange(n) + 1.0
        np.testing.assert_array_equal(jitted(x), f(x))
    with pytest.raises(TraceError, match="symbolic size N as an integer"):
        pf.jit(f).plan(pf.spec("f32[N]"))


if __name__ == "__main__":
    GOLDEN.write_text("\n".join(f"=== {name}\n{raised(*case, name)}\n" for name, case in CASES.items()))
