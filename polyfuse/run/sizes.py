"""From the shapes of a call to the values of a program's size symbols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from polyfuse.affine import Affine
from polyfuse.bindings import AnyGuard, Guard
from polyfuse.expr import Program, Shape


def solve(shapes: Sequence[Shape], actual: Sequence[tuple[int, ...]]) -> dict[str, int] | None:
    """The value of every symbol, or None where the actual shapes do not fit the symbolic ones.

    Sizes are solved one symbol at a time, ``2*N + 1 = 9`` gives ``N = 4``; what remains is checked.
    """
    equations: list[tuple[Affine, int]] = []
    for shape, extents in zip(shapes, actual, strict=True):
        if len(shape) != len(extents):
            return None
        equations += zip(shape, extents, strict=True)
    values: dict[str, int] = {}
    pending = equations
    while pending:
        waiting = []
        for size, extent in pending:
            unknown = size.names() - values.keys()
            if len(unknown) > 1 or (unknown and not size.is_linear):
                waiting.append((size, extent))
                continue
            if unknown and not _solve_one(size, extent, next(iter(unknown)), values):
                return None
            if size.evaluate(values) != extent:
                return None
        if len(waiting) == len(pending):
            return None  # a symbol that no equation isolates
        pending = waiting
    return values


def _solve_one(size: Affine, extent: int, unknown: str, values: dict[str, int]) -> bool:
    known = size.substitute({n: v for n, v in values.items() if n in size.names()})
    value, remainder = divmod(extent - known.constant, known.coefficient(unknown))
    values[unknown] = value
    return remainder == 0 and value >= 0


def hold(guards: Iterable[AnyGuard], sizes: Mapping[str, int]) -> bool:
    return all(guard.holds(sizes) for guard in guards)


def granted(program: Program) -> list[Guard]:
    """What every proof about a program takes for granted: sizes are positive, since a call of a jitted function with
    arrays of none has a trace of its own, and the program's facts hold."""
    products = {name for name, _ in program.derived}
    letters = [Affine.symbol(name) - 1 for name in program.symbols if name not in products]
    return [Guard(expression) for expression in (*letters, *program.facts)]


def evaluate(shape: Iterable[Affine], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Concrete extents."""
    return tuple(size.evaluate(sizes) for size in shape)
