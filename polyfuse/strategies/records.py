"""Results that are records of a few elements, as matrices of 3 x 3: a thread makes one, a block stores all of its own.

    y[i, j, k] = f(x[i, ...])      made      i = 126*b + t,            j and k in the registers of a thread
                                   stored    i = 126*b + 14*q + r,     j and k in thread 9*r + 3*j + k

What the elements of a record share is computed once, and read once.  Threads that stored what they made would write
to as many sectors as there are threads with each element; through shared memory a warp writes what lies side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm, prod

from polyfuse.affine import Affine
from polyfuse.places.proposal import Proposal, Staging, Windows
from polyfuse.schedule import Digit
from polyfuse.scop import Read, Statement
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.situation import Situation, block, mixed, power_below, slot, thread
from polyfuse.strategies.windows import row_guards, vector_of

THREADS = 128
MOST = 64
"""Elements of a record, which a thread holds in registers."""


@dataclass(frozen=True, slots=True)
class _Record:
    """A result with its short dimensions, and the elements that a thread stores at once."""

    statement: Statement
    short: tuple[int, ...]
    vector: int

    @property
    def sizes(self) -> list[int]:
        return [self.statement.extents[d].constant for d in self.short]

    @property
    def accesses(self) -> int:
        """Threads that store a record together."""
        return prod(self.sizes) // self.vector


def records(situation: Situation) -> list[Proposal]:
    """Proposals for groups whose results are records that are made of others than the same elements of other arrays."""
    if situation.reductions or situation.scans or situation.target.kind == "cpu" or not situation.has_much:
        return []
    lead, count = situation.lead, _short(situation.lead)
    far = [situation.classes.of[lead.id, d] for d in lead.kept[: len(lead.kept) - count]]
    if not count or not far:
        return []
    found = [_record(situation, s, far) for s in situation.group.statements() if s.id in situation.group.roots]
    made = [record for record in found if record is not None]
    torn = [r for r in made if r.short and not _is_one_access(situation, r)]
    near = [situation.classes.of[r.statement.id, d] for r in made for d in r.short]
    if len(made) < len(found) or not torn or any(a not in {*far, *near} for a in situation.axes):
        return []
    if not all(a.extent.is_constant for a in situation.axes if a not in far) or not _is_mixed(situation):
        return []
    together = lcm(*[record.accesses for record in torn])
    most = situation.tiles.get("threads", THREADS)
    return [_proposal(situation, made, torn, far, most // together * together)] if together <= most else []


def _short(statement: Statement) -> int:
    """The last dimensions of a result that a thread can have whole."""
    found = 0
    for d in reversed(statement.kept):
        extents = [statement.extents[k] for k in (d, *statement.kept[len(statement.kept) - found :])]
        if not all(e.is_constant for e in extents) or prod([e.constant for e in extents]) > MOST:
            break
        found += 1
    return found


def _record(situation: Situation, root: Statement, far: Sequence[AxisClass]) -> _Record | None:
    """None of a result that is no record along the same dimensions as others."""
    axes = [situation.classes.of[root.id, d] for d in root.kept]
    short = root.kept[len(far) :]
    sizes = [root.extents[d].constant if root.extents[d].is_constant else 0 for d in short]
    if tuple(axes[: len(far)]) != tuple(far) or len(set(axes)) < len(axes) or not all(sizes) or prod(sizes) > MOST:
        return None
    vector = situation.target.vector_bytes // max(d.itemsize for d in root.dtypes)
    while vector > 1 and (not sizes or sizes[-1] % vector):
        vector //= 2
    return _Record(root, short, vector)


def _is_one_access(situation: Situation, record: _Record) -> bool:
    """Whether a thread can store a record at once, so that neighbours store what lies side by side."""
    count = prod(record.sizes) * max(d.itemsize for d in record.statement.dtypes)
    return count == power_below(count) <= situation.target.vector_bytes


def _is_mixed(situation: Situation) -> bool:
    """Whether elements of a record are made of other elements."""
    return any(_mixes(read) for statement in situation.group.statements() for read in statement.reads)


def _mixes(read: Read) -> bool:
    """Whether a read is at other elements than what reads it; transposes have strategies of their own."""
    if not read.affine or read.where:
        return True
    for entry in read.index:
        dims = [n for n in entry.names() if n.startswith("%")] if isinstance(entry, Affine) else []
        if not isinstance(entry, Affine) or len(dims) != 1 or entry.constant or entry.terms[0][1] != 1:
            return True
    return False


def _proposal(
    situation: Situation,
    made: Sequence[_Record],
    torn: Sequence[_Record],
    far: Sequence[AxisClass],
    threads: int,
) -> Proposal:
    along = far[-1]
    t, b = thread("t", 1, threads), block("b0", along.extent.ceildiv(threads))
    digits, splits = [b], {along.number: mixed((b, threads), (t, 1))}
    for k, axis in enumerate(situation.nearest([a for a in far if a is not along])):
        digits.insert(0, block(f"b{k + 1}", axis.extent))
        splits[axis.number] = mixed((digits[0], 1))
    whole = [a for a in situation.axes if a not in far]
    taken = [slot(f"s{k}", a.extent.constant) for k, a in enumerate(whole)]
    splits |= {axis.number: mixed((s, 1)) for axis, s in zip(whole, taken, strict=True)}
    places = anchors(situation, splits)
    staging: dict[int, Staging] = {}
    stored: list[Digit] = []
    for k, record in enumerate(torn):
        root = record.statement
        at = tuple([places[root.id, d] for d in root.kept])
        staging[root.id] = Staging(at=at, apart=situation.group.body - {root.id})
        store, more = _stored(record, k, mixed((b, threads)), threads)
        places |= {(root.id, d): place for d, place in zip(root.kept[len(far) - 1 :], store, strict=True)}
        stored += more
    values = situation.group.loads | situation.group.body - situation.group.roots
    vectors = {n: vector_of(situation, n) if n in situation.group.loads else 1 for n in values}
    return Proposal(
        "records",
        (("threads", threads),),
        kept_digits([*digits, t, *stored, *taken], keep_threads=True),
        places,
        staging=staging,
        guards=row_guards(situation, along.extent, 1, vectors, flat=False),
        windows=Windows(tuple([s.name for s in taken]), vectors),
    )


def _stored(record: _Record, number: int, first: Affine, threads: int) -> tuple[list[Affine], list[Digit]]:
    """Where the threads of a block store its records, along them and their dimensions, and the digits of that."""
    places, digits, stride = list[Affine](), list[Digit](), 1
    for k, size in reversed(list(enumerate(record.sizes))):
        vector = record.vector if k == len(record.sizes) - 1 else 1
        c, v = thread(f"c{number}_{k}", stride, size // vector), slot(f"v{number}", vector)
        places.insert(0, mixed((c, vector), (v, 1)))
        digits += [c, v] if vector > 1 else [c]
        stride *= size // vector
    r, q = thread(f"r{number}", stride, threads // stride), slot(f"q{number}", record.accesses)
    return [first + mixed((q, r.count), (r, 1)), *places], [q, r, *digits]
