"""One name per lifetime: the same results, and no name that several bodies assign."""

from __future__ import annotations

import ast
import random
from collections import Counter

import pytest

from polyfuse.codegen.lifetimes import separated


def text(source: str) -> str:
    return ast.unparse(separated(source))


def test_branches_get_names_of_their_own() -> None:
    before = """
def f(a, out):
    if a > 0:
        x = a + 1
        out(x)
    else:
        x = a - 1
        out(x)
"""
    assert text(before) == before.strip().replace("x", "x_0", 2).replace("x ", "x_1 ").replace("(x)", "(x_1)")


@pytest.mark.parametrize(
    "body",
    [
        "    x = 0\n    for k in range(a):\n        x = x + k\n    out(x)",  # carried around the loop
        "    x = 0\n    if a > 0:\n        x = 1\n    out(x)",  # read afterwards
        "    for k in range(a):\n        if k == 0:\n            x = k\n        out(x)",  # from an earlier trip
        "    x = 1\n    while a > x:\n        x = x + x\n    out(x)",  # not a printed statement
    ],
)
def test_a_name_that_others_see_stays(body: str) -> None:
    source = f"def f(a, out):\n{body}"
    assert text(source) == source


def program(rng: random.Random) -> str:
    def block(depth: int, indent: str) -> list[str]:
        found = []
        for _ in range(rng.randint(1, 4)):
            kind = rng.random()
            a, b, c = (rng.choice("pqrst") for _ in range(3))
            if kind < 0.5 or depth == 3:
                found.append(f"{indent}{a} = {b} * 3 + {c} + {rng.randint(0, 9)}")
            elif kind < 0.6:
                found.append(f"{indent}{a}, {b} = {b}, {c} + 1")
            elif kind < 0.7:
                found.append(f"{indent}out({a})")
            elif kind < 0.85:
                found += [f"{indent}for {rng.choice('kp')} in range({rng.randint(0, 3)}):"]
                found += block(depth + 1, indent + "    ")
            else:
                found += [f"{indent}if {a} % 2 == 0:", *block(depth + 1, indent + "    ")]
                found += [f"{indent}else:", *block(depth + 1, indent + "    ")] if rng.random() < 0.7 else []
        return found

    known = [f"    {name} = {k}" for k, name in enumerate("pqrst") if rng.random() < 0.9]
    return "\n".join(["def f(out):", *known, *block(0, "    "), "    out(p)"])


def outcome(module: ast.Module) -> tuple[list[int], str]:
    seen: list[int] = []
    names: dict[str, object] = {}
    exec(compile(module, "test", "exec"), names)
    try:
        names["f"](seen.append)  # type: ignore[operator]
    except NameError:
        return seen, "unbound"
    return seen, ""


def test_random_programs_do_the_same() -> None:
    rng, fewer = random.Random(0), 0
    for _ in range(600):
        source = program(rng)
        before, after = ast.parse(source), separated(source)
        assert outcome(before) == outcome(after), f"{source}\n\n{ast.unparse(after)}"
        most = [
            Counter(n.id for n in ast.walk(m) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
            for m in (before, after)
        ]
        fewer += len(most[1]) > len(most[0])
    assert fewer > 100
