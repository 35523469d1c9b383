"""Grouping: which values are stored, and which stores share a kernel.

A plan is a partition of the stored values into kernels; what is not stored is recomputed where it is needed.  The
search starts with everything in one kernel, or with one kernel per output where that is slow, and ends there if nothing
is to be won; else with everything stored (one kernel per statement).  It makes moves, best first, each bounded, priced
and proved.
"""

from polyfuse.grouping.costs import Costs
from polyfuse.grouping.partition import KernelGroup
from polyfuse.grouping.search import Grouping, search

__all__ = ["Costs", "Grouping", "KernelGroup", "search"]
