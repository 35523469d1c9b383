"""Level 1, the tensor DAG that frontends build: few, general, interned nodes.

=========  =====================================================================================================
node       value at output point ``%0, %1, ...``
=========  =====================================================================================================
Input      array argument `position`
Scalar     Python scalar argument `position`, passed by value
Constant   one number (rank 0)
Iota       the affine expression `index` of the output point, as an integer
Map        a scalar function (`polyfuse.scalars`) of the operands at the same point; rank-0 operands broadcast
Reduce     a monoid over `axes` of the operands (tuple state: component `component` of the result); axes vanish
Scan       a monoid over the prefix along `axis`, or along each run of so many elements
Recurrence a scalar function of the operands at the same point and of earlier values along `axis` (tuple state, too)
View       ``source[index]``: one affine index map; every transpose, slice, flip, broadcast, reshape, window
Region     the first piece whose condition holds: concatenate, pad, roll, functional slice update
Gather     ``source[index]`` where some entries are data: values of integer operands at the output point
Scatter    `base` with `updates` combined in at data-dependent positions, duplicates in order of the update index
Opaque     one result of a call into an array library, or of a user's kernel
=========  =====================================================================================================

Interning makes equality identity.  `digest` is structural: it ignores names, source lines and trace order, and
commutative operands are put into a canonical order (`precedence`).  Names and source lines live in `Program`.
"""

from __future__ import annotations

import hashlib
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union
from weakref import WeakValueDictionary

import numpy as np

from polyfuse.affine import ONE, ZERO, Affine, AffineLike, dimension, dimensions, names_of
from polyfuse.dtypes import DType, bool_
from polyfuse.errors import Source
from polyfuse.scalars import FUNCTIONS, monoid_named
from polyfuse.terms import Expr

Shape = tuple[Affine, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False, weakref_slot=True)
class _Node:
    shape: Shape
    dtype: DType
    digest: bytes
    height: int  # operations on the longest way from a leaf

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        """The node without those that it is made of: what is shared would be written again for every way to it."""
        shape = ", ".join(map(str, self.shape))
        return f"<{type(self).__name__} {self.digest.hex()[:8]}: {self.dtype}[{shape}]>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Input(_Node):
    position: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scalar(_Node):
    position: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Constant(_Node):
    bits: bytes

    @property
    def value(self) -> bool | int | float:
        """The number as a Python scalar; bfloat16 widened."""
        item = np.frombuffer(self.bits, self.dtype.numpy)[0]
        match self.dtype.kind:
            case "b":
                return bool(item)
            case "f":
                return float(item)
            case _:
                return int(item)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Iota(_Node):
    index: Affine


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Map(_Node):
    function: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reduce(_Node):
    monoid: str
    operands: tuple[Node, ...]
    axes: tuple[int, ...]
    component: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scan(_Node):
    monoid: str
    operand: Node
    axis: int
    exclusive: bool
    reverse: bool
    run: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Recurrence(_Node):
    """``h[i] = step(h[i - lag] for lag in lags, other operands at i)``, one element after the other along `axis`; with
    several `steps` a tuple of values that follow from each other, of which this node is number `component`.

    A step is a term over ``b1, b2, ...``, the values so many elements before (of other components ``b1_1, b2_1, ...``),
    ``o0, o1, ...``, the operands at the point, and conditions on the point.  The first operands, for every component
    one per lag, stand for the values before where there is none: ``b2`` is the operand of lag 2 at the first two
    elements.
    """

    steps: tuple[Expr, ...]
    operands: tuple[Node, ...]
    lags: tuple[int, ...]
    axis: int
    component: int

    @property
    def starts(self) -> tuple[Node, ...]:
        """The operands that stand for values before the first: by component, by lag."""
        return self.operands[: len(self.steps) * len(self.lags)]

    @property
    def states(self) -> tuple[DType, ...]:
        """The dtypes of the components."""
        return tuple(o.dtype for o in self.starts[:: len(self.lags)])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class View(_Node):
    source: Node
    index: tuple[Affine, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """``source[index]`` where all of `where` are >= 0; the index need only be in bounds there."""

    where: tuple[Affine, ...]
    source: Node
    index: tuple[Affine, ...]
    _encoded: bytes = field(default=b"", init=False, compare=False, repr=False)  # once asked for

    def encoded(self) -> bytes:
        """Its text in digests: arrays that are written element by element have the same pieces again and again."""
        if not self._encoded:
            object.__setattr__(self, "_encoded", _encode((self.where, self.source, self.index)))
        return self._encoded


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Region(_Node):
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class DataIndex:
    """An index that is the value of integer operand `operand` at the output point, already in ``0 .. extent-1``
    unless the node's `bounds` says that it must be checked."""

    operand: int


IndexEntry = Union[Affine, DataIndex]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Gather(_Node):
    source: Node
    operands: tuple[Node, ...]
    index: tuple[IndexEntry, ...]
    bounds: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scatter(_Node):
    base: Node
    updates: Node
    operands: tuple[Node, ...]
    index: tuple[IndexEntry, ...]  # over the points of `updates`
    monoid: str  # a monoid, or "set": the last update in C order wins
    bounds: str


@dataclass(frozen=True, slots=True)
class Call:
    """What an `Opaque` runs: a library function by name with static `settings`, or `function` with them, which returns
    the result.  Where `in_place`, it writes its last argument instead: ``function(*operands, result, stream=handle)``,
    a library function likewise.
    """

    name: str
    settings: tuple[tuple[str, Any], ...] = ()
    function: Callable[..., Any] | None = field(default=None, compare=False)
    in_place: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Opaque(_Node):
    call: Call
    operands: tuple[Node, ...]
    result: int


Node = Union[Input, Scalar, Constant, Iota, Map, Reduce, Scan, Recurrence, View, Region, Gather, Scatter, Opaque]

# ---------------------------------------------------------------------------------------------- interning

_interned: WeakValueDictionary[bytes, Any] = WeakValueDictionary()
_lock = threading.Lock()


def _encode(value: Any) -> bytes:
    """Bytes that identify a field: child nodes by digest, everything else by its exact text."""
    if isinstance(value, _Node):
        return value.digest
    if isinstance(value, bytes):
        return value
    if isinstance(value, tuple):
        parts = [_encode(v) for v in value]
        return b"(" + b"".join(struct.pack("<I", len(p)) + p for p in parts) + b")"
    if isinstance(value, Piece):
        return value.encoded()
    if isinstance(value, Call):
        return _encode((value.name, repr(value.settings), str(id(value.function)) if value.function else ""))
    return f"{type(value).__name__}:{value}".encode()


def digest_of(*parts: Any) -> bytes:
    """A structural digest of nodes and plain values."""
    return hashlib.blake2b(_encode(parts), digest_size=16).digest()


def _intern(kind: type, shape: Sequence[AffineLike], dtype: DType, **fields: Any) -> Any:
    sizes = tuple(Affine.of(n) for n in shape)
    encoded = _encode((kind.__name__, sizes, dtype.name, *fields.values()))
    digest = hashlib.blake2b(encoded, digest_size=16).digest()
    with _lock:
        node = _interned.get(digest)
        if node is None:
            height = 1 + max((o.height for value in fields.values() for o in _nodes(value)), default=-1)
            node = _interned[digest] = kind(shape=sizes, dtype=dtype, digest=digest, height=height, **fields)
    return node


def _nodes(value: Any) -> Iterator[_Node]:
    """The nodes in one field of a node."""
    if isinstance(value, _Node):
        yield value
    elif isinstance(value, Piece):
        yield value.source
    elif isinstance(value, tuple):
        for part in value:
            yield from _nodes(part)


def precedence(node: Node) -> tuple[int, str, str, int, bytes]:
    """The canonical order of commutative operands: the highest first, then by what they are, so that repeated parts of
    a program are put in the same order (digests alone differ from part to part)."""
    match node:
        case Constant():  # behind an argument as behind what is computed: of a loop, the first step is like the others
            return (1, "Constant", "", 0, node.digest)
        case Map(function=name):
            return (-node.height, "Map", name, 0, node.digest)
        case Input(position=position) | Scalar(position=position):
            return (-node.height, type(node).__name__, "", position, node.digest)
        case View(source=source):
            _, kind, name, position, _ = precedence(source)
            return (-node.height, "View", f"{kind} {name}", position, node.digest)
        case _:
            return (-node.height, type(node).__name__, "", 0, node.digest)


# ---------------------------------------------------------------------------------------------- constructors
# They check what must hold for every frontend; messages for users are the frontend's business.


def input_(position: int, shape: Sequence[AffineLike], dtype: DType) -> Input:
    return _intern(Input, shape, dtype, position=position)  # type: ignore[no-any-return]


def scalar(position: int, dtype: DType) -> Scalar:
    return _intern(Scalar, (), dtype, position=position)  # type: ignore[no-any-return]


def constant(value: bool | int | float, dtype: DType) -> Constant:
    bits = np.asarray(value).astype(dtype.numpy).tobytes()
    return _intern(Constant, (), dtype, bits=bits)  # type: ignore[no-any-return]


def iota(shape: Sequence[AffineLike], index: Affine, dtype: DType) -> Iota:
    return _intern(Iota, shape, dtype, index=index)  # type: ignore[no-any-return]


def map_(function: str, operands: Sequence[Node], dtype: DType | None = None) -> Map:
    """Apply a scalar function.  Operands have equal shapes or rank 0.  `dtype` is needed for casts only."""
    entry = FUNCTIONS[function]
    assert len(operands) == entry.arity, f"{function} takes {entry.arity} operands"
    shapes = {o.shape for o in operands if o.shape}
    assert len(shapes) <= 1, f"{function}: operands of shapes {shapes}"
    if dtype is None:
        dtype = bool_ if entry.result == "bool" else operands[-1].dtype
    if entry.commutative:
        operands = sorted(operands, key=precedence)
    shape = next(iter(shapes), ())
    return _intern(Map, shape, dtype, function=function, operands=tuple(operands))  # type: ignore[no-any-return]


def reduce_(monoid: str, operands: Sequence[Node], axes: Sequence[int], component: int = 0) -> Reduce:
    """Reduce operands of equal shape over `axes` (sorted, distinct, non-negative).  Of those along which there is one
    element, none is left beside others."""
    assert len(operands) == monoid_named(monoid).state and len({o.shape for o in operands}) == 1
    source = operands[0].shape
    single = [a for a in axes if source[a] == ONE]
    if single and len(single) < len(axes):
        left = [k for k in range(len(source)) if k not in single]
        index = [ZERO if k in single else dimension(left.index(k)) for k in range(len(source))]
        operands = [view(o, [source[k] for k in left], index) for o in operands]
        return reduce_(monoid, operands, [left.index(a) for a in axes if a not in single], component)
    assert all(0 <= a < len(source) for a in axes) and len(set(axes)) == len(axes)
    shape = [n for k, n in enumerate(source) if k not in axes]
    dtype = operands[component].dtype
    fields: dict[str, Any] = dict(operands=tuple(operands), axes=tuple(sorted(axes)), component=component)
    return _intern(Reduce, shape, dtype, monoid=monoid, **fields)  # type: ignore[no-any-return]


def scan(
    monoid: str, operand: Node, axis: int, exclusive: bool = False, reverse: bool = False, run: int = 0
) -> Scan:
    """`run`: the prefix starts anew at every multiple of so many elements; 0: never."""
    assert not (run and reverse), "runs go forwards"
    fields: dict[str, Any] = dict(operand=operand, axis=axis, exclusive=exclusive, reverse=reverse, run=run)
    return _intern(Scan, operand.shape, operand.dtype, monoid=monoid, **fields)  # type: ignore[no-any-return]


def recurrence(
    steps: Sequence[Expr], operands: Sequence[Node], lags: Sequence[int], axis: int, component: int = 0
) -> Recurrence:
    """Operands have the shape of the first, or rank 0 behind those of the lags (positive, distinct, rising)."""
    shape, starts = operands[0].shape, operands[: len(steps) * len(lags)]
    assert lags and all(o.shape == shape for o in starts) and list(lags) == sorted(set(lags))
    assert all(o.shape in (shape, ()) for o in operands) and 0 <= axis < len(shape) and 0 <= component < len(steps)
    fields: dict[str, Any] = dict(steps=tuple(steps), operands=tuple(operands), lags=tuple(lags), axis=axis)
    dtype = starts[component * len(lags)].dtype
    return _intern(Recurrence, shape, dtype, component=component, **fields)  # type: ignore[no-any-return]


def view(source: Node, shape: Sequence[AffineLike], index: Sequence[AffineLike]) -> Node:
    """``source[index]``; views of views compose, identities vanish, a view of a constant scalar stays a view."""
    entries = tuple(Affine.of(e) for e in index)
    sizes = tuple(Affine.of(n) for n in shape)
    assert len(entries) == source.rank, f"{len(entries)} indices for a source of rank {source.rank}"
    if isinstance(source, View):
        at = {f"%{k}": entry for k, entry in enumerate(entries)}
        return view(source.source, sizes, [e.substitute(at) for e in source.index])
    if sizes == source.shape and entries == dimensions(len(sizes)):
        return source
    return _intern(View, sizes, source.dtype, source=source, index=entries)  # type: ignore[no-any-return]


def broadcast(source: Node, shape: Sequence[AffineLike]) -> Node:
    """NumPy broadcasting of `source` to `shape`; axes of size 1 are read at index 0."""
    sizes = tuple(Affine.of(n) for n in shape)
    if sizes == source.shape or not source.shape:
        return source
    offset = len(sizes) - source.rank
    points = dimensions(len(sizes))
    index = [Affine((), 0) if n == Affine((), 1) else points[offset + k] for k, n in enumerate(source.shape)]
    return view(source, sizes, index)


def region(shape: Sequence[AffineLike], pieces: Sequence[Piece]) -> Region:
    assert len({p.source.dtype for p in pieces}) == 1, "pieces of one dtype"
    fields: dict[str, Any] = dict(pieces=tuple(pieces))
    return _intern(Region, shape, pieces[0].source.dtype, **fields)  # type: ignore[no-any-return]


def gather(
    source: Node,
    shape: Sequence[AffineLike],
    operands: Sequence[Node],
    index: Sequence[IndexEntry],
    bounds: str = "raise",
) -> Gather:
    """Operands are integer nodes of the output's shape (or rank 0)."""
    assert len(index) == source.rank
    fields: dict[str, Any] = dict(source=source, operands=tuple(operands), index=tuple(index), bounds=bounds)
    return _intern(Gather, shape, source.dtype, **fields)  # type: ignore[no-any-return]


def scatter(
    base: Node, updates: Node, operands: Sequence[Node], index: Sequence[IndexEntry], monoid: str, bounds: str = "raise"
) -> Scatter:
    """Operands are integer nodes of the shape of `updates` (or rank 0); `index` has one entry per axis of `base`."""
    assert len(index) == base.rank and base.dtype == updates.dtype
    fields: dict[str, Any] = dict(
        base=base, updates=updates, operands=tuple(operands), index=tuple(index), monoid=monoid, bounds=bounds
    )
    return _intern(Scatter, base.shape, base.dtype, **fields)  # type: ignore[no-any-return]


def opaque(call: Call, operands: Sequence[Node], shape: Sequence[AffineLike], dtype: DType, result: int = 0) -> Opaque:
    return _intern(Opaque, shape, dtype, call=call, operands=tuple(operands), result=result)  # type: ignore[no-any-return]


# ---------------------------------------------------------------------------------------------- traversal


def operands_of(node: Node) -> tuple[Node, ...]:
    """The nodes that `node` reads, in order."""
    match node:
        case Map() | Reduce() | Recurrence() | Opaque():
            return node.operands
        case Scan():
            return (node.operand,)
        case View():
            return (node.source,)
        case Region():
            return tuple(p.source for p in node.pieces)
        case Gather():
            return (node.source, *node.operands)
        case Scatter():
            return (node.base, node.updates, *node.operands)
        case _:
            return ()


def readers(nodes: Iterable[Node]) -> dict[bytes, int]:
    """By digest of a node: how many of `nodes` read it."""
    found: dict[bytes, int] = {}
    for node in nodes:
        for operand in {o.digest for o in operands_of(node)}:
            found[operand] = found.get(operand, 0) + 1
    return found


def topological(outputs: Sequence[Node]) -> Iterator[Node]:
    """Every node once, operands before users, in an order that depends on structure only."""
    seen: set[int] = set()
    for output in outputs:
        stack: list[tuple[Node, bool]] = [(output, False)]
        while stack:
            node, expanded = stack.pop()
            if expanded:
                yield node
            elif id(node) not in seen:
                seen.add(id(node))
                stack.append((node, True))
                stack.extend((o, False) for o in reversed(operands_of(node)) if id(o) not in seen)


# ---------------------------------------------------------------------------------------------- programs


@dataclass(frozen=True, slots=True)
class Argument:
    """One leaf of the call: an array or a Python scalar.  `path` is how the user reaches it: ``x``, ``params['w']``."""

    path: str
    shape: Shape
    dtype: DType
    is_scalar: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """A traced function.

    `facts`: affine expressions over size symbols known to be >= 0 (beyond sizes being positive).  `hints`: typical
    values of the symbols, for the price only.  `names` and `sources` are keyed by node digest and never part of keys.
    `writes`: argument position -> output position, for donated or in-place updated arguments.  `derived`: fresh symbols
    that stand for products of sizes (collapsed dimensions), with their factors.  `inner`: digests of the values that a
    library function made on the way to its result, such as the exponential of a sigmoid.
    """

    name: str
    arguments: tuple[Argument, ...]
    outputs: tuple[Node, ...]
    output_names: tuple[str, ...]
    facts: tuple[Affine, ...] = ()
    hints: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[bytes, str] = field(default_factory=dict)
    sources: Mapping[bytes, Source] = field(default_factory=dict)
    writes: Mapping[int, int] = field(default_factory=dict)
    derived: tuple[tuple[str, tuple[Affine, ...]], ...] = ()
    inner: frozenset[bytes] = frozenset()

    @property
    def symbols(self) -> tuple[str, ...]:
        """Size symbols in order of first appearance in the arguments."""
        found = dict.fromkeys(n for a in self.arguments for size in a.shape for n in sorted(size.names()))
        return (*found, *(name for name, _ in self.derived))

    @property
    def digest(self) -> bytes:
        """Structural identity of the program, ignoring names, lines and hints."""
        arguments = tuple((a.shape, a.dtype.name, str(a.is_scalar)) for a in self.arguments)
        parts = (arguments, self.outputs, self.facts, tuple(sorted(self.writes.items())))
        return hashlib.blake2b(_encode(parts), digest_size=16).digest()


def undeclared_symbols(program: Program) -> frozenset[str]:
    """Size symbols used by nodes that no argument shape defines: must be empty for a program that can run."""
    used = names_of(size for node in topological(program.outputs) for size in node.shape)
    return used - frozenset(program.symbols)
