"""Whether 32-bit indices suffice for a plan: where every array and every index that a place takes is small enough.

A thread past the end of a dimension computes its index before it is masked: ``i = share*b + span*r + t`` reaches up to
one block's share behind the extent.  The largest weight of a digit bounds that, so arrays and extents that come closer
than it to 2**31 take 64 bits as well.  So do positions that are values or conditions (``70000*i + j``), whatever arrays
there are.  Sums that wrap in an address do no harm: the address itself fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from polyfuse.affine import Affine, FloorDiv
from polyfuse.bindings import VolumeGuard
from polyfuse.kernel import Kernel
from polyfuse.lower.inspect import flatten, parts
from polyfuse.planning.choose import Choice
from polyfuse.planning.joining import factors_of
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import Scop, Statement
from polyfuse.terms import Apply, Expr, Index, Inside, affines
from polyfuse.wanted import mixed

RANGE = 2**31
PADDING = 2**16  # elements at least that are left for padding, so that most plans have the same bound

Shape = tuple[Affine, ...]


@dataclass(frozen=True, slots=True)
class IndexBits:
    """`bits` of the indices of all kernels of a plan; 32 for calls that fulfil all `guards`."""

    bits: int
    guards: tuple[VolumeGuard, ...] = ()


def index_bits(scop: Scop, choices: Iterable[Choice], hints: Mapping[str, int]) -> IndexBits:
    """For the kernels that were chosen, at the sizes hinted; `scop`: of the whole program."""
    chosen = [choice for choice in choices if choice.schedule is not None and choice.group is not None]
    shapes = dict.fromkeys(_arrays(scop, chosen))  # in order: the guards are part of the text
    arrays = [frozenset(shape) for shape in shapes]
    shapes |= dict.fromkeys(shape for shape in _extents(chosen) if not any(array >= {*shape} for array in arrays))
    limit = RANGE - max([PADDING, *(_padding(c.schedule) for c in chosen if c.schedule is not None)])
    if any(_volume(shape, hints) > limit for shape in shapes):
        return IndexBits(64)
    symbolic = [shape for shape in shapes if any(not extent.is_constant for extent in shape)]
    return IndexBits(32, tuple(VolumeGuard(shape, limit) for shape in symbolic))


def divided(schedule: KernelSchedule, kernel: Kernel) -> tuple[VolumeGuard, ...]:
    """The guards under which 32 bits hold what a kernel divides, where that is more than what there is to index: the
    vectors of a piece of ``n - m`` elements are those of ``n + 15*m`` less m."""
    found: dict[Shape, None] = {}
    for affine in {affine for op in flatten(kernel.body) for part in parts(op) for affine in _affines(part)}:
        for atom, _ in affine.terms:
            if isinstance(atom, FloorDiv) and any(abs(factor) > 1 for _, factor in atom.numerator.terms):
                reach = _reached(atom.numerator, lambda name: schedule.digit(name[1:]).extent)
                found |= {} if reach.is_constant else {(reach,): None}
    limit = RANGE - max(PADDING, _padding(schedule))
    return tuple([VolumeGuard(shape, limit) for shape in sorted(found, key=str)])


def _affines(part: Affine | Expr) -> Iterable[Affine]:
    return [part] if isinstance(part, Affine) else affines(part)


def _reached(affine: Affine, extent: Callable[[str], Affine]) -> Affine:
    """At least the largest magnitude of any part of an expression of sizes and of names that run below an `extent`."""
    found = Affine.of(abs(affine.constant))
    for atom, factor in affine.terms:
        if isinstance(atom, FloorDiv):
            part = _reached(atom.numerator, extent).ceildiv(atom.denominator)
        else:
            part = extent(atom) if atom[0] in "$%" else Affine.symbol(atom)
        found += part * abs(factor)
    return found


def _volume(shape: Shape, hints: Mapping[str, int]) -> int:
    volume = 1
    for extent in shape:
        volume *= max(1, extent.evaluate(hints))
    return volume


def _padding(schedule: KernelSchedule) -> int:
    """More than what a place may pass the end of its dimension by, a power of two."""
    entries = [entry for placed in schedule.placed for entry in placed.place if isinstance(entry, Affine)]
    widest = max((abs(factor) for entry in entries for _, factor in entry.terms), default=1)
    return 2 << widest.bit_length()


def _arrays(scop: Scop, chosen: list[Choice]) -> Iterator[Shape]:
    """Shapes of what kernels load and store; products of sizes in full."""
    touched: set[int] = set()
    for choice in chosen:
        assert choice.schedule is not None
        touched |= {*choice.schedule.roots, *choice.schedule.loads}
    yield from (scop.shape(value) for value in sorted(touched))
    for choice in chosen:
        yield from _shares(choice)


def _shares(choice: Choice) -> Iterator[Shape]:
    """Shapes at least as large as those of what blocks leave each other."""
    assert choice.schedule is not None and choice.group is not None
    scop, schedule = choice.group.scop, choice.schedule
    for placed in (p for p in schedule.placed if p.role == "partial"):
        along = next(g.digit for g in schedule.grid_combine if g.reduction == placed.providers[0])
        yield _in_full((schedule.digit(along).extent, *scop.shape(placed.value)), scop)


def _extents(chosen: list[Choice]) -> Iterator[Shape]:
    """Extents of what the kernels compute, contiguous runs of several dimensions among them, and of positions."""
    for choice in chosen:
        assert choice.group is not None
        for statement in choice.group.statements():
            extent_of = _axis_extents(statement)
            reaches = [_reached(affine, extent_of) for affine in _positions(statement)]
            yield from (_in_full((extent,), choice.group.scop) for extent in (*statement.extents, *reaches))


def _axis_extents(statement: Statement) -> Callable[[str], Affine]:
    return lambda name: statement.extents[int(name[1:])]


def _positions(statement: Statement) -> Iterator[Affine]:
    """Positions that a statement computes with: as values, and in conditions."""
    pending = list(statement.body)
    while pending:
        term = pending.pop()
        if (difference := mixed(term)) is not None:
            yield difference
        match term:
            case Index(affine):
                yield affine
            case Inside(where):
                yield from where
            case Apply(operands=operands):
                pending += operands
    yield from (affine for read in statement.reads for affine in read.where)


def _in_full(shape: Shape, scop: Scop) -> Shape:
    """The shape with products of sizes spelled out; of parts of a product, the whole of it, which is no less."""
    products = dict(scop.program.derived)
    found: list[Affine] = []
    for extent in shape:
        factors = factors_of(extent, products)
        parts = sorted({name for f in factors for name in f.names() & products.keys()})
        found += [f for name in parts for f in products[name]] if parts else factors
    return tuple(found)
