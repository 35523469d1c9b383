"""Figures that stay symbolic in the sizes, and comparisons decided for all sizes at once.

The only package that imports sympy (0.3 s): import it inside the function that needs it.
"""

from polyfuse.algebra.formula import DependsOnSizes, Formula, compare, nbytes, volume
from polyfuse.algebra.ordering import Ordering, Relation
from polyfuse.algebra.symbols import size, symbolic

__all__ = [
    "DependsOnSizes",
    "Formula",
    "Ordering",
    "Relation",
    "compare",
    "nbytes",
    "size",
    "symbolic",
    "volume",
]
