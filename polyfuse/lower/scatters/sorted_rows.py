"""Scatters in the order of the updates: kernels that walk the updates sorted by place, each thread a piece of them.

    places    1  1  1 | 1  4  4 | 4  7  9      the pieces of three threads
    thread 0  all in a run that goes on:       its share is a tail of 1
    thread 1  1 goes on from before: a head;   4 goes on behind: a tail
    thread 2  4 goes on from before: a head;   7 and 9 are whole, and written

A thread follows its last run `AHEAD` updates further, and the next one leaves these out, so that short runs are whole.

A place whose updates lie in one piece is written at once.  What is cut is joined by further kernels, each thread a
piece of the shares, in the same way: a tail, and the heads behind it, as far as they belong to the same place.  The
last one is one thread per column.  Every place is written once, and updates are combined in their order, so that bits
depend on the indices alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from polyfuse import kernel as ir
from polyfuse.affine import Affine, digit
from polyfuse.dtypes import bool_, i64
from polyfuse.lower.scatters.rows import array, column_of, row_digits, row_kernel, seed_kernel, zero
from polyfuse.scalars import MONOIDS
from polyfuse.scatters.call import ONE
from polyfuse.scatters.rows import LENGTH, THREADS, Role, RowScatter
from polyfuse.scop import neutral
from polyfuse.terms import Apply, Const, Expr, Inside, Ref

AHEAD = 8
"""Updates whose loads a thread has on their way together."""
_GROUP = digit("group")
_TRUE, _FALSE = Const(True, bool_), Const(False, bool_)
_NOWHERE = -1


def sorted_kernels(scatter: RowScatter) -> tuple[ir.Kernel, ...]:
    """In order."""
    joins = (_Walk(scatter, level).joins() for level in range(1, scatter.depth + 1))
    return (seed_kernel(scatter), _Walk(scatter, 0).walks(), *joins)


@dataclass(frozen=True, slots=True)
class _Walk:
    """The kernel of one level: each thread walks `LENGTH` entries, updates at level 0, pairs of shares above it."""

    scatter: RowScatter
    level: int

    # ---------------------------------------------------------------- where a thread is
    @property
    def is_last(self) -> bool:
        return self.level == self.scatter.depth

    @property
    def span(self) -> int:
        """Updates of one entry."""
        return int(LENGTH**self.level)

    @property
    def piece(self) -> Affine:
        return Affine.of(0) if self.is_last else THREADS // self.scatter.lanes * digit("b0") + _GROUP

    @property
    def start(self) -> Affine:
        """The first entry of the thread."""
        return LENGTH * self.piece

    @property
    def column(self) -> Affine:
        return column_of(self.scatter)[0]

    @property
    def across(self) -> tuple[Affine, ...]:
        """Where the columns of the thread exist, whole vectors of them."""
        return (*((-1 * _GROUP,) if self.is_last else ()), column_of(self.scatter)[1])

    def entry(self, number: int) -> Affine:
        return self.start + AHEAD * digit("k") + number

    # ---------------------------------------------------------------- the two kernels
    def walks(self) -> ir.Kernel:
        """Updates are combined."""
        before = self._place("before", self.start - 1, (self.start - 1, self._exists(self.start)))
        body = [
            *before,
            ir.Let("current", _ref("before")),
            ir.Let("is_head", _TRUE),
            ir.Let("total", self._neutral()),
            *self._filling(),
            ir.For("k", Affine.of(LENGTH // AHEAD), tuple(self._updates())),
            *self._further(),
            *self._leaves(_bool("exists"), _bool("crosses"), _ref("current")),
        ]
        arrays = [self._read("base"), self._read("updates"), self._read("targets"), self._read("order")]
        return self._made("walk", [*arrays, *self._written()], body)

    def joins(self) -> ir.Kernel:
        """Shares are joined."""
        s, trips = self.scatter, Affine.of(LENGTH // AHEAD)
        body: list[ir.Op] = [
            ir.Let("current", Const(_NOWHERE, i64)),
            ir.Let("is_live", _FALSE),
            ir.Let("is_head", _FALSE),
            ir.Let("started", _FALSE),
            ir.Let("total", self._neutral()),
        ]
        if self.is_last:
            trips = s.pieces(self.level - 1).ceildiv(AHEAD)
        body.append(ir.For("k", trips, tuple(self._shares())))
        body += [self._store(s.target, _ref("current"), _bool("is_live"))] if self.is_last else self._passed_on()
        shares = [self._share(name, self.level - 1) for name in s.shares(self.level - 1)]
        arrays = [self._read("targets"), self._read("order"), *shares]
        return self._made(f"join{self.level}", [*arrays, *self._written()], body)

    def _made(self, what: str, arrays: list[ir.ArrayParameter], body: list[ir.Op]) -> ir.Kernel:
        s = self.scatter
        groups = THREADS // s.lanes
        pieces = ONE if self.is_last else s.pieces(self.level).ceildiv(groups)
        grid = (pieces, s.width.ceildiv(s.lanes * s.vector))
        return row_kernel(f"{s.name}_{what}", arrays, tuple(body), grid, row_digits(s), (ir.Slot("v", s.vector),))

    # ---------------------------------------------------------------- arrays
    def _read(self, role: Role) -> ir.ArrayParameter:
        s = self.scatter
        if role in ("targets", "order"):
            return array(s, role, (s.count,))
        rows = s.count if role == "updates" else s.places
        return array(s, role, (ONE,) if role == "base" and s.is_filled else (rows, s.width))

    def _share(self, name: str, level: int, readonly: bool = True) -> ir.ArrayParameter:
        s = self.scatter
        return ir.ArrayParameter(name, s.dtype.compute, (s.pieces(level), s.width), readonly=readonly)

    def _written(self) -> list[ir.ArrayParameter]:
        s = self.scatter
        result = ir.ArrayParameter(s.target, s.dtype, (s.places, s.width), readonly=False)
        left = [] if self.is_last else [self._share(name, self.level, False) for name in s.shares(self.level)]
        return [result, *left]

    # ---------------------------------------------------------------- parts of both
    def _exists(self, entry: Affine) -> Affine:
        return self.scatter.count - 1 - self.span * entry

    def _place(self, name: str, position: Affine, where: tuple[Affine, ...]) -> list[ir.Op]:
        """The place that the update at a position of the order goes to, none where there is no such position."""
        s = self.scatter
        order = Ref(f"{name}_row", s.scop.dtype(s.order))
        read = Ref(f"{name}_read", s.scop.dtype(s.targets))
        return [
            ir.Load(order.name, s.array("order"), (position,), where, None, Const(0, order.dtype)),
            ir.Load(read.name, s.array("targets"), (order,), where, None, Const(_NOWHERE, read.dtype)),
            ir.Let(name, read if read.dtype == i64 else Apply("cast", (read,), i64)),
        ]

    def _neutral(self) -> Const:
        if self.scatter.monoid == "sum" and self.scatter.dtype.kind == "f":
            return Const(-0.0, self.scatter.dtype.compute)  # zero is not: it makes a zero of the other sign its own
        (found,) = neutral(self.scatter.monoid, (self.scatter.dtype,))
        return found

    def _combined(self, left: Expr, right: Expr) -> Expr:
        return Apply(MONOIDS[self.scatter.monoid].function, (left, right), self.scatter.dtype.compute)

    @property
    def total(self) -> Ref:
        return Ref("total", self.scatter.dtype.compute)

    def _load(self, name: str, array: str, row: Affine | Ref, where: tuple[Affine, ...], mask: Expr | None) -> ir.Load:
        dtype = self.scatter.dtype
        fill = Const(zero(dtype), dtype.compute)
        return ir.Load(name, array, (row, self.column), (*where, *self.across), mask, fill, self.scatter.vector)

    def _store(self, array: str, row: Affine | Ref, mask: Expr, value: Expr | None = None) -> ir.Store:
        stored = value if value is not None else self.total
        return ir.Store(array, (row, self.column), stored, self.across, mask, self.scatter.vector)

    def _ends(self, mask: Expr, place: Ref) -> list[ir.Op]:
        """A run ends inside of the piece: it is whole, or a head."""
        if self.is_last:
            return [self._store(self.scatter.target, place, mask)]
        heads, _ = self.scatter.shares(self.level)
        return [
            self._store(self.scatter.target, place, _both(mask, _not(_bool("is_head")))),
            self._store(heads, self.piece, _both(mask, _bool("is_head"))),
        ]

    def _leaves(self, exists: Expr, crosses: Expr, place: Ref) -> list[ir.Op]:
        """The last run of the piece."""
        _, tails = self.scatter.shares(self.level)
        inner = _not(_bool("is_head"))
        ended = _both(exists, Apply("bitwise_or", (_not(crosses), _bool("is_head")), bool_))
        return [*self._ends(ended, place), self._store(tails, self.piece, _both(crosses, inner))]

    # ---------------------------------------------------------------- updates
    def _filling(self) -> list[ir.Op]:
        s = self.scatter
        return [ir.Load("filling", s.array("base"), (Affine.of(0),))] if s.is_filled else []

    def _updates(self) -> list[ir.Op]:
        """A few updates: everything that they read first, then one after the other."""
        s, compute = self.scatter, self.scatter.dtype.compute
        body: list[ir.Op] = []
        for j in range(AHEAD):
            entry = self.entry(j)
            body += self._place(f"place{j}", entry, (self._exists(entry),))
        for j in range(AHEAD):
            row, here = Ref(f"place{j}_row", s.scop.dtype(s.order)), (self._exists(self.entry(j)),)
            body.append(self._load(f"update{j}", s.array("updates"), row, here, None))
            body.append(ir.Let(f"is_new{j}", _not(_same(f"place{j}", _previous(j)))))
            if not s.is_filled:
                mask = _bool(f"is_new{j}")
                body.append(self._load(f"base{j}", s.array("base"), _ref(f"place{j}"), here, mask))
        for j in range(AHEAD):
            is_new, base = _bool(f"is_new{j}"), Ref("filling" if s.is_filled else f"base{j}", compute)
            body += self._ends(_both(is_new, _owned()), _ref(_previous(j)))
            begun = Apply("where", (is_new, base, self.total), compute)
            combined = self._combined(begun, Ref(f"update{j}", compute))
            left_out = _both(Inside((-1 * digit("k"),)), _same(f"place{j}", "before"))
            body.append(ir.Let("total", Apply("where", (left_out, self.total, combined), compute)))
            body.append(ir.Let("is_head", _both(_bool("is_head"), _not(is_new))))
        return [*body, ir.Let("current", _ref(_previous(AHEAD)))]

    def _further(self) -> list[ir.Op]:
        """The first updates of the next piece, as far as they belong to the last run of this one."""
        s, compute = self.scatter, self.scatter.dtype.compute
        entries = [self.start + LENGTH + j for j in range(AHEAD)]
        body: list[ir.Op] = [ir.Let("exists", Apply("greater_equal", (_ref("current"), Const(0, i64)), bool_))]
        for j, entry in enumerate(entries):
            body += self._place(f"place{j}", entry, (self._exists(entry),))
            body.append(ir.Let(f"is_same{j}", _both(_bool("exists"), _same(f"place{j}", "current"))))
        for j, entry in enumerate(entries):
            row, mask = Ref(f"place{j}_row", s.scop.dtype(s.order)), _bool(f"is_same{j}")
            body.append(self._load(f"update{j}", s.array("updates"), row, (self._exists(entry),), mask))
        for j in range(AHEAD):
            combined = self._combined(self.total, Ref(f"update{j}", compute))
            body.append(ir.Let("total", Apply("where", (_bool(f"is_same{j}"), combined, self.total), compute)))
        return [*body, ir.Let("crosses", _bool(f"is_same{AHEAD - 1}"))]

    # ---------------------------------------------------------------- shares
    def _shares(self) -> list[ir.Op]:
        """A few entries: whether a run goes on into each, and if one does, all of them one by one."""
        body: list[ir.Op] = []
        going: Expr = _bool("is_live")
        for j in range(AHEAD):
            body += self._boundary(j, self.entry(j))
            going = Apply("bitwise_or", (going, _bool(f"goes_on{j}")), bool_)
        joined = ir.If(going, tuple(self._joined()), uniform=False)
        return [*body, joined, ir.Let("started", _TRUE), ir.Let("current", _ref(_previous(AHEAD)))]

    def _joined(self) -> list[ir.Op]:
        """Every entry: its head, and the tail in front of it."""
        compute = self.scatter.dtype.compute
        heads, tails = self.scatter.shares(self.level - 1)
        body: list[ir.Op] = []
        for j in range(AHEAD):
            entry, goes_on = self.entry(j), _bool(f"goes_on{j}")
            here = (self._exists(entry),)
            body.append(self._load(f"head{j}", heads, entry, here, goes_on))
            body.append(self._load(f"tail{j}", tails, entry - 1, (entry - 1, *here), goes_on))
        for j in range(AHEAD):
            goes_on, started = _bool(f"goes_on{j}"), _bool("started") if j == 0 else _TRUE
            body.append(ir.Let(f"is_same{j}", _is_same(goes_on, f"place{j}", _previous(j))))
            is_same = _bool(f"is_same{j}")
            body += self._ends(_both(_bool("is_live"), _not(is_same)), _ref(_previous(j)))
            first = Ref(f"tail{j}", compute)
            first_or_none = Apply("where", (started, first, self._neutral()), compute) if j == 0 else first
            begun = Apply("where", (is_same, self.total, first_or_none), compute)
            body.append(ir.Let("total", self._combined(begun, Ref(f"head{j}", compute))))
            if not self.is_last:
                opens = _both(is_same, _bool("is_head"))
                opened = Apply("bitwise_or", (opens, _both(goes_on, _not(started))), bool_) if j == 0 else opens
                body.append(ir.Let("is_head", opened))
            body.append(ir.Let("is_live", goes_on))
        return body

    def _boundary(self, number: int | str, entry: Affine) -> list[ir.Op]:
        """Whether a run goes on from the entry before, further than its thread has followed it."""
        position, behind = self.span * entry, self._exists(entry) - (AHEAD - 1)
        return [
            *self._place(f"place{number}", position + AHEAD - 1, (behind,)),
            *self._place(f"left{number}", position - 1, (position - 1, behind)),
            ir.Let(
                f"goes_on{number}",
                _both(
                    _same(f"place{number}", f"left{number}"),
                    Apply("greater_equal", (_ref(f"place{number}"), Const(0, i64)), bool_),
                ),
            ),
        ]

    def _passed_on(self) -> list[ir.Op]:
        """The last run of the piece; where the last entry has a tail of its own, that is the tail of the piece."""
        s, compute, end = self.scatter, self.scatter.dtype.compute, self.start + LENGTH
        _, tails = s.shares(self.level - 1)
        _, passed = s.shares(self.level)
        goes_on, is_same, is_head = _bool("goes_on_behind"), _bool("is_same"), _bool("is_head")
        value = Apply("where", (is_same, self.total, Ref("tail", compute)), compute)
        ended = _both(_bool("is_live"), Apply("bitwise_or", (_not(is_same), is_head), bool_))
        return [
            *self._boundary("_behind", end),
            ir.Let("is_same", _is_same(goes_on, "place_behind", "current")),
            self._load("tail", tails, end - 1, (self._exists(end),), _both(goes_on, _not(is_same))),
            *self._ends(ended, _ref("current")),
            self._store(passed, self.piece, _both(goes_on, _not(_both(is_same, is_head))), value),
        ]


def _owned() -> Expr:
    """Whether what ends is the thread's: not a run of the piece before that ends among its first updates."""
    return Apply("bitwise_or", (Inside((digit("k") - 1,)), _not(_bool("is_head"))), bool_)


def _previous(number: int) -> str:
    """The place in front of that of update `number`."""
    return f"place{number - 1}" if number else "current"


def _ref(name: str) -> Ref:
    return Ref(name, i64)


def _bool(name: str) -> Ref:
    return Ref(name, bool_)


def _same(left: str, right: str) -> Expr:
    return Apply("equal", (_ref(left), _ref(right)), bool_)


def _is_same(goes_on: Expr, place: str, previous: str) -> Expr:
    """Whether what goes on is the run that the thread has followed."""
    return _both(goes_on, _both(_bool("is_live"), _same(place, previous)))


def _not(term: Expr) -> Expr:
    return Apply("invert", (term,), bool_)


def _both(left: Expr, right: Expr) -> Expr:
    return Apply("bitwise_and", (left, right), bool_)
