"""Moves sink to what is in memory: of a computed array that is only moved around, what it is computed of is moved.

    written                                     becomes
    np.roll(np.exp(x), s)                       np.exp(np.roll(x, s))
    np.fft.fftshift(np.log1p(np.abs(x)))        np.log1p(np.abs(np.fft.fftshift(x)))

A region has a piece per part of the array that moves by itself, and where a block meets several, each is computed of
what it reads: so pieces read, and what they read is computed once.  Nothing sinks of an array that something else needs
as well, which would be computed again, nor anything computed of more than elements of arguments at the same places.
Along two axes a region has pieces of another one, and pieces of the array itself, where it would be moved twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from polyfuse import expr
from polyfuse.affine import Affine, dimensions
from polyfuse.expr import Node, Piece, Program
from polyfuse.rewrites.rebuild import rebuild_program

_LEAVES = (expr.Input, expr.Iota, expr.Constant, expr.Scalar)
_OUTSIDE = b"who calls the program"


def sink_moves(program: Program) -> Program:
    """The same program with regions of one computed array as computations of regions."""
    nodes = list(expr.topological(program.outputs))
    if not any(isinstance(node, expr.Region) for node in nodes):
        return program
    moves, instead = _Moves(program, nodes), dict[bytes, Node]()
    for node in reversed(nodes):  # the last one of several that move the same array moves it for all
        if isinstance(node, expr.Region) and (found := moves.sunk(node)) is not None:
            instead[node.digest] = found
    if not instead:
        return program
    rebuilt = rebuild_program(program, lambda original, node: instead.get(original.digest, node))
    names = {new: program.names[old] for old, new in moves.made.items() if old in program.names}
    sources = {new: program.sources[old] for old, new in moves.made.items() if old in program.sources}
    return replace(rebuilt, sources={**sources, **rebuilt.sources}, names={**names, **rebuilt.names})


class _Moves:
    """`readers`: who needs each array, by digests.  `made`: by the array that a computation stood for, the one that
    stands for it now."""

    def __init__(self, program: Program, nodes: list[Node]) -> None:
        self.readers: dict[bytes, set[bytes]] = {output.digest: {_OUTSIDE} for output in program.outputs}
        for node in nodes:
            for operand in expr.operands_of(node):
                self.readers.setdefault(operand.digest, set()).add(node.digest)
        self.made: dict[bytes, bytes] = {}

    def sunk(self, region: expr.Region) -> Node | None:
        """What stands for a region, where it and others that nothing else reads move one computed array."""
        regions = {node.digest for node in _regions(region)}
        read = {p.source.digest: p.source for node in _regions(region) for p in node.pieces}
        array, *others = [node for digest, node in read.items() if digest not in regions]
        if others or not isinstance(array, expr.Map) or any(not self.readers[digest] <= regions for digest in read):
            return None
        return self._computed(array, region)

    def _computed(self, array: expr.Map, region: expr.Region) -> Node | None:
        """An array computed of what the region moves; None where that is more than elements of arguments."""
        operands = [self._moved(o, region, dimensions(o.rank)) if o.rank else o for o in array.operands]
        known = [o for o in operands if o is not None]
        if len(known) < len(operands):
            return None
        found = expr.map_(array.function, known, array.dtype)
        self.made[array.digest] = found.digest
        return found

    def _moved(self, array: Node, region: expr.Region, index: tuple[Affine, ...]) -> Node | None:
        """``array[index]``, moved as the region moves what it reads."""
        match array:
            case expr.View():
                below = {f"%{k}": entry for k, entry in enumerate(index)}
                return self._moved(array.source, region, tuple([e.substitute(below) for e in array.index]))
            case expr.Map() if index == dimensions(array.rank) and len(self.readers[array.digest]) == 1:
                return self._computed(array, region)
            case _ if isinstance(array, _LEAVES):
                return _element(array, region, index)
            case _:
                return None


def _regions(region: expr.Region) -> Iterator[expr.Region]:
    """It, and those that its pieces read."""
    found, waiting = set[bytes](), [region]
    while waiting:
        node = waiting.pop()
        if node.digest not in found:
            found.add(node.digest)
            waiting += [piece.source for piece in node.pieces if isinstance(piece.source, expr.Region)]
            yield node


def _element(array: Node, region: expr.Region, index: tuple[Affine, ...]) -> Node:
    """``array[index]`` in place of what a region and those that it reads have in the end: a view where all pieces are
    at one place, as of what is shared by rows that move."""
    pieces = []
    for piece in region.pieces:
        at = {f"%{k}": entry for k, entry in enumerate(piece.index)}
        if isinstance(piece.source, expr.Region):
            pieces.append(Piece(piece.where, _element(array, piece.source, index), piece.index))
        else:
            pieces.append(Piece(piece.where, array, tuple([entry.substitute(at) for entry in index])))
    pieces = [_below(piece) for piece in pieces]
    if all(piece.source is array and piece.index == pieces[0].index for piece in pieces):
        return expr.view(array, region.shape, pieces[0].index)
    return expr.region(region.shape, pieces)


def _below(piece: Piece) -> Piece:
    """A piece of a view, as one of what it is a view of."""
    if not isinstance(piece.source, expr.View):
        return piece
    at = {f"%{k}": entry for k, entry in enumerate(piece.index)}
    return Piece(piece.where, piece.source.source, tuple([entry.substitute(at) for entry in piece.source.index]))
