"""Elementwise groups over rows that begin anywhere in memory, in aligned vectors that the ends of a row cut
(`frames.py`).

    parts of a row      j = U*T*V*b0 + T*V*u + V*t + v - (rest*i mod V)
    a whole row         j =            T*V*u + V*t + v - (rest*i mod V)       T: any number of warps
    a few rows          j =            L*V*u + V*x + v - (rest*i mod V)       i = R*b1 + y,  L: one warp or two

A block that has a whole row knows which of its vectors the ends may cut: what asks is most of what 16-bit rows issue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from polyfuse.affine import ONE, Affine
from polyfuse.bindings import AnyGuard
from polyfuse.places.proposal import Proposal
from polyfuse.schedule import Digit
from polyfuse.scop import Statement
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.frames import HALF, VECTOR, WORD, Frame, frame
from polyfuse.strategies.pointwise import BYTES_IN_FLIGHT, THREADS, anchors, exactly, kept_digits
from polyfuse.strategies.row_shape import framed_bucket
from polyfuse.strategies.situation import Situation, block, mixed, power_above, power_below, slot, thread
from polyfuse.strategies.whole import Whole, whole
from polyfuse.terms import Ref

MOST_THREADS, MOST_VECTORS, MOST_OF_WORDS = 512, 4, 6
"""Of a block that has a whole row, and vectors of one of its threads, of elements of less than a word and of words."""
MOST_PIECES = 2
"""Each is made of whole vectors in every block, whichever it has: 6001 x 8003 bfloat16 shifted by halves along both
axes take an H200 117 us in frames of four pieces, 75 in windows."""
LANES = (32, 64)
"""Of rows that are too short for a block: all of a warp are moved alike."""


def framed_elements(situation: Situation) -> Iterator[Proposal]:
    """Proposals for a group without scans and reductions."""
    axes = situation.classes.statement(situation.lead)
    others = [a for a in situation.axes if a.number not in {b.number for b in axes} and a.extent != ONE]
    if not axes or others or situation.scans or situation.reductions:
        return
    inner = situation.inner if situation.inner in axes else axes[-1]
    assert inner is not None
    for taken in whole(situation, axes, inner):
        if taken.inner is inner and (rows := _Rows.of(situation, axes, inner, taken)) is not None:
            yield rows.in_parts()
    if (rows := _Rows.of(situation, axes, inner)) is not None:
        yield rows.in_parts()
        if (row := rows.whole()) is not None:
            yield row
    for lanes in LANES:
        rows = _Rows.of(situation, axes, inner, lanes=lanes)
        if rows is not None and (few := rows.few()) is not None:
            yield few


def _moves(statement: Statement) -> bool:
    """Whether a statement computes nothing: bytes stay together.  On an H200, the first two axes of 10 x 9427 x 2110
    bytes swapped 162 us in pairs, 104 in frames."""
    return all(isinstance(term, Ref) for term in statement.body)


def _pieces(situation: Situation) -> int:
    """Places at which some array in memory is read under conditions, at most: what is rolled along a row has two."""
    reads = [(r.source, r.index) for s in situation.group.statements() for r in s.reads if r.where]
    found = Counter(source for source, _ in set(reads) if source in situation.group.loads)
    return max(found.values(), default=0)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows along `inner` in frames.  A thread has `columns` whole; other classes have blocks of their own, but for
    `beside`, which is dealt to threads as well: the rows of a block.  `part`: the name of the digit of parts of a row.
    """

    situation: Situation
    inner: AxisClass
    frame: Frame
    blocks: tuple[Digit, ...]
    columns: tuple[Digit, ...]
    splits: dict[int, Affine]
    guards: tuple[AnyGuard, ...]
    part: str
    beside: Digit | None = None

    @staticmethod
    def of(
        situation: Situation,
        axes: tuple[AxisClass, ...],
        inner: AxisClass,
        taken: Whole | None = None,
        lanes: int = THREADS,
    ) -> _Rows | None:
        """`lanes`: of a row; the threads of a block that are more have other rows."""
        whole_axes = taken.axes if taken is not None else ()
        others = situation.nearest(a for a in axes if a is not inner and a not in whole_axes)
        rows = THREADS // lanes if others else 1
        ty = thread("ty", lanes, rows)
        steps = [rows if k == 0 else 1 for k in range(len(others))]
        number = situation.numbered((inner, *others))
        digits = [block(f"b{number[axis.number]}", axis.extent.ceildiv(steps[k])) for k, axis in enumerate(others)]
        columns = [slot(f"o{k}" if k else "o", a.size(situation.hints)) for k, a in enumerate(whole_axes)]
        splits = {axis.number: mixed((b, 1)) for axis, b in zip(others, digits, strict=True)}
        if rows > 1:
            splits[others[0].number] = mixed((digits[0], rows), (ty, 1))
        splits |= {axis.number: mixed((o, 1)) for axis, o in zip(whole_axes, columns, strict=True)}
        if _pieces(situation) > MOST_PIECES:
            return None
        least = 1 if all(_moves(s) for s in situation.group.statements()) else HALF
        found = frame(situation, inner, splits, enough=VECTOR if situation.has_much else WORD, least=least)
        if found is None or any(f"${o.name}" in found.shift.names() for o in columns):
            return None
        exact = [exactly(axis.extent, o.count) for axis, o in zip(whole_axes, columns, strict=True)]
        guards = (*found.guards, *[guard for guards in exact for guard in guards])
        part = f"b{number[inner.number]}"
        several, guards = ty if rows > 1 else None, tuple(dict.fromkeys(guards))
        return _Rows(situation, inner, found, tuple(digits), tuple(columns), splits, guards, part, several)

    @property
    def places(self) -> Affine:
        """Of a row, those in front of its first element in a vector among them."""
        return self.frame.padded(self.inner.extent)

    def in_parts(self) -> Proposal:
        """Each block has a part of a row, or of all along the classes that threads take whole."""
        situation, width, asked = self.situation, self.frame.width, self.situation.tiles
        most = power_below(asked.get("threads", THREADS))
        lanes = min(most, power_above(-(-situation.size(self.places) // width)))
        of_thread = max(situation.long_itemsizes) * width * prod([o.count for o in self.columns])
        unroll = asked.get("unroll", max(1, BYTES_IN_FLIGHT // of_thread))
        return self._dealt(lanes, unroll, block(self.part, self.places.ceildiv(unroll * lanes * width)), self.guards)

    def whole(self) -> Proposal | None:
        """A block has a row, in so many warps that few places are padding; None where it is too long for one."""
        situation, width, warp = self.situation, self.frame.width, self.situation.target.warp
        vectors = -(-situation.size(self.places) // width)
        short = min(situation.long_itemsizes) < WORD
        least, most = (warp, MOST_VECTORS) if short else (THREADS, MOST_OF_WORDS)
        ways = [(warp * -(-vectors // (warp * each)), each) for each in range(1, most + 1)]
        fitting = [(lanes, each) for lanes, each in ways if least <= lanes <= MOST_THREADS]
        pays = situation.is_busy and self._are_read_whole() and not self._are_in_order()
        if situation.tiles or not pays or not fitting or vectors <= THREADS:
            return None
        lanes, each = min(fitting, key=lambda way: (way[0] * way[1], -way[1]))
        return self._dealt(lanes, each, None, (*self.guards, *self._bucket(lanes, each)))

    def few(self) -> Proposal | None:
        """A block has a few rows, a warp or two each; None where they are longer."""
        situation, width, ty = self.situation, self.frame.width, self.beside
        if ty is None or situation.tiles or not situation.is_busy:
            return None
        each = -(-situation.size(self.places) // (ty.stride * width))
        if each > MOST_OF_WORDS or min(situation.long_itemsizes) < WORD:
            return None
        return self._dealt(ty.stride, each, None, (*self.guards, *self._bucket(ty.stride, each)))

    def _bucket(self, lanes: int, each: int) -> tuple[AnyGuard, ...]:
        """The guards of the rows for which so many vectors of so many lanes are enough, and one fewer is not."""
        span, size = lanes * self.frame.width, self.situation.size(self.places)
        return framed_bucket(self.places, size, self.frame.width, (each - 1) * span, each * span)

    def _are_read_whole(self) -> bool:
        """Whether rows of all arrays are about as long: the ends of parts of a row may lie anywhere in it."""
        group, scop = self.situation.group, self.situation.scop
        shapes = [scop.shape(value) for value in group.loads]
        lengths = [shape[-1] for shape in shapes if len(shape) > len(self.blocks)]
        return all((length - self.inner.extent).is_constant for length in lengths)

    def _are_in_order(self) -> bool:
        """Whether all arrays of such rows lie in memory as the results do: walked flat they have no ends (`flat.py`).
        """
        group, scop = self.situation.group, self.situation.scop
        reads = [read for statement in group.statements() for read in statement.reads if read.source in group.loads]
        rows = [read for read in reads if len(scop.shape(read.source)) > len(self.blocks)]
        return all(entry == Affine.symbol(f"%{d}") for read in rows for d, entry in enumerate(read.index))

    def _has_interiors(self) -> bool:
        """Whether a body for the blocks inside of a row, or of a piece of one, is worth compiling.  Of 16-bit elements
        it was not timed but where a row has pieces, of which others would be asked for everywhere."""
        reads = [read for statement in self.situation.group.statements() for read in statement.reads]
        return min(self.situation.long_itemsizes) >= WORD or any(read.where for read in reads)

    def _dealt(self, lanes: int, unroll: int, b: Digit | None, guards: tuple[AnyGuard, ...]) -> Proposal:
        width = self.frame.width
        tx, u, v = thread("tx", 1, lanes), slot("u", unroll), slot("v", width)
        place = mixed((b, unroll * lanes * width), (u, lanes * width), (tx, width), (v, 1))
        blocks = sorted((*self.blocks, *([b] if b is not None else [])), key=lambda d: -d.number)
        ty = self.beside
        rows = ty.count if ty is not None else 1
        return Proposal(
            "pointwise",
            (
                *(("threads", lanes * rows), ("unroll", unroll)),
                *([("rows", rows)] if rows > 1 else []),
                *([("columns", prod([o.count for o in self.columns]))] if self.columns else []),
                *(("vector", width), ("frames", 1)),
            ),
            kept_digits([*blocks, tx, *([ty] if ty else []), u, *self.columns, v], True),
            anchors(self.situation, self.splits | {self.inner.number: place - self.frame.shift}),
            guards=guards,
            border=b is not None and not self.frame.alone and self._has_interiors(),
        )
