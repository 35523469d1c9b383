"""Arrays that are written element by element: regions of many pieces become chains of regions of a few.

    r[0, 0] = a;  r[0, 1] = b;  ...  200 writes            one region of 201 pieces, one statement of 201 reads
 -> z = region(the first 64 writes and zeros)              as many pieces, and 65 of them at most in one statement
    y = region(64 writes; else z)
    x = region(64 writes; else y)    r = region(the last 8 writes; else x)

A statement is a line of code with a `where` per piece inside the one before, which neither readers of source nor
compilers follow for long; and every kernel that is weighed with it would place all of its reads.
"""

from __future__ import annotations

from dataclasses import replace

from polyfuse import expr
from polyfuse.affine import dimensions
from polyfuse.expr import Node, Piece, Program
from polyfuse.rewrites.rebuild import rebuild_program

PIECES = 64
"""Of a region, beside the rest.  CPython parses 200 nested parentheses, and a recursive walk of a term takes two to
three of its 1,000 frames per piece."""


def short_regions(program: Program) -> Program:
    """The same program with at most `PIECES` pieces, and one for the rest, in every region."""
    made: set[bytes] = set()

    def change(original: Node, node: Node) -> Node:
        if not isinstance(node, expr.Region) or len(node.pieces) <= PIECES + 1:
            return node
        pieces = list(node.pieces)
        while len(pieces) > PIECES + 1:  # the oldest writes first: later versions of an array share them
            rest = expr.region(node.shape, pieces[-PIECES - 1 :])
            made.add(rest.digest)
            pieces = [*pieces[: -PIECES - 1], Piece((), rest, dimensions(node.rank))]
        return expr.region(node.shape, pieces)

    rebuilt = rebuild_program(program, change)
    return replace(rebuilt, inner=rebuilt.inner | made)
