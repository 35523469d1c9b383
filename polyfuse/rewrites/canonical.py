"""Canonical views: where a transposition, a slice or a new axis is written must not change what is computed.

    written                                          becomes
    exp(x).T                                         exp(x.T)                 views sink to what is read
    sqrt(v[:, None] + 1)      shape (M, 1)           sqrt(v + 1)[:, None]     values have no unit or idle dimensions
    einsum("ij->j", x)        sum over %1 of x.T     sum over %0 of x         reductions run along their operand
    sum(x[:, :, None] * y[None], 1)   (i, k, j)      (i, j, k)                else kept dimensions first

Only a value that nothing else reads moves: nothing is computed twice.  Views that repeat elements stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from polyfuse import expr
from polyfuse.affine import ONE, ZERO, Affine, dimension, dimensions
from polyfuse.expr import Node, Program, Shape
from polyfuse.rewrites.rebuild import with_operands


def canonical_views(program: Program) -> Program:
    """The same program with views in canonical places.  Names, source lines and marks follow the values."""
    order = list(expr.topological(program.outputs))
    demands = _Demands(program.outputs, order)
    for node in reversed(order):
        demands.visit(node)
    values: dict[bytes, Node] = {}
    for node in order:
        values[node.digest] = _rewritten(node, demands, values)
    return _replaced(program, values)


@dataclass(frozen=True, slots=True)
class Access:
    """How the only reader of a value sees it: ``value[index]`` over a box of `shape`."""

    shape: Shape
    index: tuple[Affine, ...]

    @staticmethod
    def whole(node: Node) -> Access:
        return Access(node.shape, dimensions(node.rank))

    def of(self, index: Sequence[Affine]) -> Access:
        """`index` of the same points, instead of this one's."""
        return Access(self.shape, tuple(index))

    def through(self, view: expr.View) -> Access:
        """The access to the source of a view that is accessed like this."""
        at = {f"%{k}": entry for k, entry in enumerate(self.index)}
        return self.of([e.substitute(at) for e in view.index])

    def read(self, node: Node) -> Node:
        return expr.view(node, self.shape, self.index)


class _Demands:
    """Per value that has one reader: its access.  Filled from the outputs to the inputs."""

    def __init__(self, outputs: Sequence[Node], order: Sequence[Node]) -> None:
        self.outputs = {o.digest for o in outputs}
        self.readers = expr.readers(order)
        self.moved: dict[bytes, Access] = {}
        self.domains: dict[bytes, tuple[Access, tuple[int, ...]]] = {}  # of reductions, as `_domain` gives them
        self.whole = set(self.outputs)  # values that must stay as they are: something needs exactly this array

    def access(self, node: Node) -> Access:
        return self.moved.get(node.digest) or Access.whole(node)

    def read(self, operand: Node, access: Access, values: Mapping[bytes, Node]) -> Node:
        """`operand` as a reader with that access sees it."""
        value = values[operand.digest]
        return value if operand.digest in self.moved else access.read(value)

    def private(self, node: Node) -> bool:
        return self.readers.get(node.digest) == 1 and node.digest not in self.outputs

    def visit(self, node: Node) -> None:
        access = self.access(node)
        match node:
            case expr.View():
                self._pass_on(node.source, access.through(node))
                if node.digest in self.whole and node.source.digest in self.moved:
                    self.whole.add(node.source.digest)
            case expr.Map():
                for operand in node.operands:
                    self._pass_on(operand, access)
            case expr.Reduce(operands=(operand,)):
                found = self.domains[node.digest] = _domain(self, node, access)
                self._pass_on(operand, found[0])
            case expr.Opaque() | expr.Scatter():
                self.whole |= {o.digest for o in expr.operands_of(node)}
            case _:
                return

    def _pass_on(self, node: Node, access: Access) -> None:
        if not node.rank or not self.private(node) or access == Access.whole(node):
            return
        if isinstance(node, expr.View) or (_moves(node) and _is_injective(access)):
            self.moved[node.digest] = access


def _moves(node: Node) -> bool:
    return isinstance(node, expr.Map) or (isinstance(node, expr.Reduce) and len(node.operands) == 1)


def _is_injective(access: Access) -> bool:
    """No element is read twice: each running dimension can be told from the index, as a digit in mixed radix."""
    running = {f"%{d}" for d, extent in enumerate(access.shape) if extent != ONE}
    return running <= {name for entry in access.index for name in _digits(entry, access.shape)}


def _digits(entry: Affine, shape: Shape) -> list[str]:
    """The dimensions that the value of an index entry determines; none where they overlap."""
    if not entry.is_linear:
        return []
    terms = [(abs(f), a) for a, f in entry.terms if isinstance(a, str) and a.startswith("%")]
    terms.sort(key=lambda term: term[0])
    reach = 0
    for k, (factor, name) in enumerate(terms):
        extent = shape[int(name[1:])]
        if factor <= reach or (k + 1 < len(terms) and not extent.is_constant):
            return []
        reach += factor * (extent.constant - 1)
    return [name for _, name in terms]


# ---------------------------------------------------------------------------------------------- domains of reductions


def _domain(demands: _Demands, node: expr.Reduce, access: Access) -> tuple[Access, tuple[int, ...]]:
    """The access of a reduction to its operand, over its kept and reduced dimensions in canonical order, and the
    positions of the reduced ones."""
    (operand,) = node.operands
    kept = len(access.shape)
    shape = (*access.shape, *(operand.shape[a] for a in node.axes))
    entries = list(access.index)
    for k, a in enumerate(node.axes):
        entries.insert(a, dimension(kept + k))
    inner = Access(shape, tuple(entries))
    order = _order(list(_leaves(demands, operand, inner)), kept, len(shape))
    at = {f"%{d}": dimension(position) for position, d in enumerate(order)}
    arranged = Access(tuple(shape[d] for d in order), tuple(e.substitute(at) for e in inner.index))
    return arranged, tuple(position for position, d in enumerate(order) if d >= kept)


def _leaves(demands: _Demands, operand: Node, access: Access) -> Iterator[tuple[Affine, ...]]:
    """The accesses to what is read, through all values that nothing else reads."""
    todo = [(operand, access, demands.private(operand))]
    while todo:
        node, seen, alone = todo.pop()
        if isinstance(node, expr.View):
            todo.append((node.source, seen.through(node), alone and demands.private(node.source)))
        elif isinstance(node, expr.Map) and alone:
            todo += [(o, seen, demands.private(o)) for o in node.operands if o.rank]
        elif node.rank and not isinstance(node, expr.Iota):
            yield seen.index


def _order(leaves: Sequence[tuple[Affine, ...]], kept: int, rank: int) -> tuple[int, ...]:
    """The order in which some array holds all dimensions, if it has the kept ones in order; else kept ones first."""
    found = []
    for index in leaves:
        plain = [_only_dimension(entry) for entry in index]
        in_order = [d for d in plain if d < kept]
        if sorted(plain) == list(range(rank)) and in_order == sorted(in_order):
            found.append(tuple(plain))
    if found:
        return min(found)

    def held_at(d: int) -> list[int]:
        name = f"%{d}"
        return sorted(position for index in leaves for position, e in enumerate(index) if name in e.names())

    return (*range(kept), *sorted(range(kept, rank), key=held_at))


def _only_dimension(entry: Affine) -> int:
    """The dimension along which an index moves if there is just one, else -1."""
    found = [int(name[1:]) for name in entry.names() if name.startswith("%")]
    return found[0] if len(found) == 1 else -1


# ---------------------------------------------------------------------------------------------- values


def _rewritten(node: Node, demands: _Demands, values: Mapping[bytes, Node]) -> Node:
    """What takes the place of `node`, as its only reader sees it."""
    access = demands.access(node)
    match node:
        case expr.View():
            return demands.read(node.source, access.through(node), values)
        case expr.Map():
            operands = [demands.read(o, access, values) if o.rank else values[o.digest] for o in node.operands]
            if node.digest in demands.whole:
                return expr.map_(node.function, operands, node.dtype)
            return _without_idle(node, operands, access.shape)
        case expr.Reduce(operands=(operand,)):
            inner, axes = demands.domains[node.digest]
            return _reduction(node, demands.read(operand, inner, values), axes, node.digest in demands.whole)
        case _:
            return with_operands(node, [values[o.digest] for o in expr.operands_of(node)])


def _without_idle(node: expr.Map, operands: Sequence[Node], shape: Shape) -> Node:
    """A map over the dimensions along which it changes; the others are added by a view."""
    running = [d for d in range(len(shape)) if shape[d] != ONE and any(_depends(o, d) for o in operands)]
    inner = [_narrowed(o, shape, running) for o in operands]
    value = expr.map_(node.function, inner, node.dtype)
    return expr.view(value, shape, [dimension(d) for d in running]) if shape else value


def _reduction(node: expr.Reduce, operand: Node, axes: tuple[int, ...], whole: bool) -> Node:
    shape = operand.shape
    idle = [d for d in range(len(shape)) if d not in axes and not (shape[d] != ONE and _depends(operand, d))]
    if whole or not idle:
        return expr.reduce_(node.monoid, [operand], axes)
    running = [d for d in range(len(shape)) if d not in idle]
    narrow = _narrowed(operand, shape, running)
    value = expr.reduce_(node.monoid, [narrow], [running.index(a) for a in axes])
    kept = [d for d in range(len(shape)) if d not in axes]
    return expr.view(value, [shape[d] for d in kept], [dimension(k) for k, d in enumerate(kept) if d in running])


def _depends(operand: Node, d: int) -> bool:
    match operand:
        case expr.View(index=index):
            return any(f"%{d}" in entry.names() for entry in index)
        case expr.Iota(index=index):
            return f"%{d}" in index.names()
        case _:
            return operand.rank > 0


def _narrowed(operand: Node, shape: Shape, running: Sequence[int]) -> Node:
    """`operand` at the origin of the dimensions that do not run."""
    if not operand.rank:
        return operand
    index = [dimension(running.index(d)) if d in running else ZERO for d in range(len(shape))]
    return expr.view(operand, [shape[d] for d in running], index)


# ---------------------------------------------------------------------------------------------- names


def _replaced(program: Program, values: Mapping[bytes, Node]) -> Program:
    """The program over the new values.  Where a value and views of it became one, the value's name stays, and it is a
    library's own only if all of them were."""
    names, sources = dict(program.names), dict(program.sources)
    origins: dict[bytes, list[bytes]] = {}
    for old, new in values.items():
        value = _value_in(new, values)
        if value.digest != old:
            origins.setdefault(value.digest, []).append(old)
    for new_digest, old_digests in origins.items():
        for old in old_digests:
            if old in program.names:
                names.setdefault(new_digest, program.names[old])
            if old in program.sources:
                sources.setdefault(new_digest, program.sources[old])
    made = {new for new, old in origins.items() if new not in values and program.inner.issuperset(old)}
    outputs = tuple(values[o.digest] for o in program.outputs)
    return replace(program, outputs=outputs, names=names, sources=sources, inner=program.inner | made)


def _value_in(node: Node, known: Mapping[bytes, Node]) -> Node:
    """The value that a view without idle dimensions was made for, else `node` itself."""
    return node.source if isinstance(node, expr.View) and node.source.digest not in known else node
