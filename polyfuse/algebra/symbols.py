"""Affine expressions as sympy expressions, and back to exact integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import sympy
from sympy.printing.str import StrPrinter

from polyfuse.affine import Affine, AffineLike, FloorDiv


def size(name: str) -> sympy.Symbol:
    """The symbol of a size: a positive integer.  Never parse names: N, S, E and I mean other things to sympy."""
    return sympy.Symbol(name, integer=True, positive=True)


def symbolic(value: AffineLike) -> sympy.Expr:
    """An affine expression of sizes as a sympy expression; divisions become ``floor``."""
    affine = Affine.of(value)
    terms = [sympy.Integer(affine.constant)]
    for atom, factor in affine.terms:
        if isinstance(atom, FloorDiv):
            terms.append(factor * sympy.floor(symbolic(atom.numerator) / atom.denominator))
        else:
            terms.append(factor * size(atom))
    return sympy.Add(*terms)


class _ExactPrinter(StrPrinter):  # type: ignore[misc]
    """Python text in integers only: ``floor(N/128 + 1/2)`` becomes ``((N + 64)//(128))``."""

    def _print_floor(self, floor: sympy.floor) -> str:
        numerator, denominator = sympy.fraction(sympy.together(floor.args[0]))
        return f"(({self._print(numerator)})//({self._print(denominator)}))"


@lru_cache(maxsize=1024)
def compiled(expression: sympy.Expr, names: tuple[str, ...]) -> Callable[[Sequence[int]], int]:
    """`expression` as a function of the sizes in the order of `names`, exact for integers of any length."""
    plain = {size(name): sympy.Symbol(f"v[{k}]") for k, name in enumerate(names)}
    text = _ExactPrinter().doprint(expression.xreplace(plain))
    function: Callable[[Sequence[int]], int] = eval(f"lambda v: {text}", {"__builtins__": {}})
    return function
