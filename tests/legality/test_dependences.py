"""Dependences against isl's dataflow analysis and by enumeration; what can be shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.dependences import flow, halo_extents, known_sizes
from polyfuse.expr import Program
from polyfuse.scop import Scop, Statement
from polyfuse.scop_builder import build_scop
from polyfuse.sets import Access, Map, Relation
from tests.legality import programs
from tests.legality.schedules import M, N

PROGRAMS: Mapping[str, Callable[[], Program]] = {
    "chain": lambda: programs.chain(N),
    "softmax": lambda: programs.softmax(M, N),
    "columns": lambda: programs.normalised(M, N, 0),
    "stencil": lambda: programs.stencil(N),
    "two stencils": lambda: programs.two_stencils(N),
    "transposed": lambda: programs.symmetric(N),
    "concatenated": lambda: programs.concatenated(M, N),
    "product": lambda: programs.product_sum(M, N, Affine.symbol("K")),
    "every second": lambda: programs.every_second_prefix(5),
}


def write(scop: Scop, statement: Statement) -> Access:
    """A value is written at the kept dimensions, by every instance that is summed into it."""
    dims = tuple(f"@j{k}" for k in range(len(statement.extents)))
    value = tuple(f"@i{k}" for k in range(len(statement.kept)))
    pairs = zip(value, statement.kept, strict=True)
    same = (sets.equal(Affine.symbol(n), Affine.symbol(dims[d])) for n, d in pairs)
    constraints = (*same, *sets.box(dims, statement.extents), *known_sizes(scop.program))
    return Access(statement.id, statement.id, Relation((*dims, *value), constraints), len(value))


@pytest.mark.parametrize("name", PROGRAMS)
def test_flow_is_what_dataflow_analysis_finds(name: str) -> None:
    scop = build_scop(PROGRAMS[name]())
    symbols = scop.program.symbols
    produced = [s for s in scop.statements if isinstance(s, Statement)]
    writes = {s.id: write(scop, s) for s in produced}
    reads: list[Access] = []
    expected: dict[tuple[int, int], Map] = {}
    for d in flow(scop):
        turned = Relation((*d.instances, *d.elements), d.relation.constraints)
        reads.append(Access(d.consumer, d.producer, turned, len(d.elements)))
        if d.producer in writes:
            here = Map.of(d.relation, d.instances, symbols)
            known = expected.get((d.producer, d.consumer))
            expected[d.producer, d.consumer] = here if known is None else known.union(here)
    found = sets.last_writers(list(writes.values()), reads, symbols)
    assert found.keys() == expected.keys()
    for pair, edge in expected.items():
        access = writes[pair[0]]
        element = access.relation.names[len(access.relation.names) - access.subscripts :]
        written = Map.of(access.relation, element, symbols)
        assert written.reverse().then(found[pair]).equals(edge)


def extents(traced: Program) -> dict[str, tuple[int | None, ...]]:
    scop = build_scop(traced)
    (root,) = scop.outputs
    return {scop.statements[value].name: spread for value, spread in halo_extents(scop, root).items()}


def test_pointwise_shares_every_dimension() -> None:
    assert extents(programs.chain(N)) == {"x0": (0,), "x1": (0,), "add": (0,)}
    assert extents(programs.bias(M, N)) == {"x0": (0, 0), "x1": (None, 0), "add": (0, 0)}


def test_rows_share_rows_and_not_columns() -> None:
    spread = extents(programs.softmax(M, N))
    assert spread["max"] == spread["sum"] == (0, None)
    assert spread["subtract"] == spread["exp"] == (0, None)  # every element of a row goes into the sum
    assert extents(programs.normalised(M, N, 0))["exp"] == (None, 0)


def test_stencils_need_a_halo() -> None:
    assert extents(programs.stencil(N)) == {"x0": (2,), "exp": (2,), "add": (0,)}
    assert extents(programs.two_stencils(N)) == {"x0": (2,), "add": (1,)}


def test_a_transposed_sum_of_itself_shares_nothing() -> None:
    assert extents(programs.symmetric(N))["exp"] == (None, None)


def test_a_prefix_shares_its_rows() -> None:
    assert extents(programs.prefix(M, N, 1))["exp"] == (0, None)
    assert extents(programs.prefix(M, N, 1, reverse=True))["exp"] == (0, None)


def test_what_is_gathered_is_shared_along_the_rest() -> None:
    spread = extents(programs.gather_rows(N, M, Affine.symbol("K")))
    assert spread["x0"] == (None, 0)
    assert spread["x1"] == (0, None)


def test_a_product_shares_a_dimension_with_each_operand() -> None:
    spread = extents(programs.product_sum(M, N, Affine.symbol("K")))
    assert spread == {"x0": (0, None), "x1": (None, 0), "multiply": (0, 0)}
