"""Which kernels take the place of a call that scatters, and what they need of the plan around them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from polyfuse.affine import Affine
from polyfuse.bindings import Buffer, Guard
from polyfuse.dtypes import DType
from polyfuse.errors import ScheduleError
from polyfuse.expr import Shape
from polyfuse.kernel import Kernel
from polyfuse.legality.atomic import merged_in_any_order
from polyfuse.lower.scatters.elements import merging_kernels
from polyfuse.lower.scatters.rows import row_kernels
from polyfuse.lower.scatters.sorted_rows import sorted_kernels
from polyfuse.planning.program_costs import ProgramCosts
from polyfuse.scatters.elements import ElementScatter, fits
from polyfuse.scatters.rows import RowScatter
from polyfuse.scop import OpaqueStatement, Scop, Statement
from polyfuse.terms import Const

fusion_log = logging.getLogger("polyfuse.fusion")
AS_THEY_COME = "updates are merged as they come"


@dataclass(frozen=True, slots=True)
class Scattering:
    """Kernels in order; `arrays`: the value behind each of their array parameters that is no buffer of their own;
    `products`: what their names for products of sizes stand for; `base`: the name of the array whose bounds they check,
    if they do."""

    kernels: tuple[Kernel, ...]
    arrays: Mapping[str, int]
    products: Mapping[str, tuple[Affine, ...]]
    buffers: tuple[Buffer, ...] = ()
    guards: tuple[Guard, ...] = ()
    base: str = ""


def scattering(costs: ProgramCosts, statement: OpaqueStatement, step: int, site: int) -> Scattering | None:
    """None for what the library runs.  `step`: the number of the call among the steps of the plan; `site`: that of its
    check of bounds, if it has one."""
    if costs.target.kind != "cuda":
        return None
    found = RowScatter.of(costs.scop, statement, costs.hints, costs.layouts)
    return _rows(costs, found, step) if found is not None else _merged(costs, statement, step, site)


def _rows(costs: ProgramCosts, scatter: RowScatter, step: int) -> Scattering:
    products = {**dict(costs.scop.program.derived), **dict(scatter.products)}
    if scatter.by is None:
        verdict = merged_in_any_order(scatter.name, scatter.monoid, scatter.dtype, costs.options.atomics)
        fusion_log.info("%s: %s", scatter.name, verdict or AS_THEY_COME)
        if not verdict:
            raise ScheduleError(f"{scatter.name} is refused: {verdict}", verdict=verdict)
        return Scattering(row_kernels(scatter), scatter.arrays(), products, (), scatter.guards)
    fusion_log.info("%s: updates are combined in their order", scatter.name)
    buffers = [
        _buffer(name, scatter.dtype.compute, (scatter.pieces(level), scatter.width), step, products)
        for level in range(scatter.depth)
        for name in scatter.shares(level)
    ]
    return Scattering(sorted_kernels(scatter), scatter.arrays(), products, tuple(buffers), scatter.guards)


def _merged(costs: ProgramCosts, statement: OpaqueStatement, step: int, site: int) -> Scattering | None:
    """Of a scatter whose updates may meet in any order."""
    scatter = ElementScatter.of(costs.scop, statement, costs.options.atomics)
    if scatter is None or any(v in costs.layouts and costs.layouts[v].strides for v in statement.operands):
        return None
    verdict = merged_in_any_order(scatter.name, scatter.monoid, scatter.merged, costs.options.atomics)
    fusion_log.info("%s: %s", scatter.name, verdict or AS_THEY_COME)
    if not verdict:
        return None
    cells = scatter.cells(costs.target.processors, costs.hints)
    base = _name(costs.scop, scatter.base) if scatter.is_checked else ""
    products = dict(costs.scop.program.derived)
    buffers = (_buffer(scatter.into, scatter.merged, scatter.shape, step, products),) if scatter.is_apart else ()
    kernels = merging_kernels(scatter, cells, site)
    return Scattering(kernels, scatter.arrays(), products, buffers, fits(scatter, cells), base)


def _name(scop: Scop, value: int) -> str:
    """Of an array as the user knows it."""
    statement = scop.statements[value]
    is_made = isinstance(statement, Statement) and isinstance(statement.body[0], Const)  # by a rewrite, or zeros
    return "the result" if is_made else statement.name


def _buffer(
    name: str, dtype: DType, shape: Shape, step: int, products: Mapping[str, tuple[Affine, ...]]
) -> Buffer:
    used = {n for extent in shape for n in extent.names()}
    return Buffer(name, dtype, shape, step, step, derived=tuple((n, f) for n, f in products.items() if n in used))
