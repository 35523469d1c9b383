"""What a strategy proposes: digits, and how the dimensions of anchors are written in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from polyfuse.affine import Affine
from polyfuse.bindings import AnyGuard
from polyfuse.schedule import Digit
from polyfuse.scop import Scop, Statement


@dataclass(frozen=True, slots=True)
class Group:
    """The statements of one kernel: `roots` are stored, `body` is their demand closure, `loads` are read."""

    scop: Scop
    body: frozenset[int]
    roots: frozenset[int]
    loads: frozenset[int]
    _statements: tuple[Statement, ...] = field(default=(), init=False, compare=False, repr=False)

    def statements(self) -> tuple[Statement, ...]:
        """The statements of the body in canonical order."""
        if not self._statements:  # every strategy asks
            found = []
            for value in sorted(self.body):
                statement = self.scop.statements[value]
                assert isinstance(statement, Statement), f"{statement.name} cannot be part of a kernel"
                found.append(statement)
            object.__setattr__(self, "_statements", tuple(found))
        return self._statements


@dataclass(frozen=True, slots=True)
class Staging:
    """Keep a value in shared memory for the needs that `unless` does not spare.

    `loops`: loops that the box is pinned to: each iteration has a box of its own contents.  `unless`: a digit; needs
    whose last index runs along it are served from memory directly (they are coalesced already).  `vector`: elements a
    thread moves at once where the box is aligned.  `apart`: values that do not read it there: they have boxes of their
    own.  `rows`: rows of a few elements that a thread moves at once, as whole words; 0: rows are long.  `lanes`: of a
    warp that puts, how many at most are side by side in a row, the others in rows beside it; 0: as many as fill it.
    `strides`: of an array in memory whose rows begin anywhere, the elements from one place to the next along each
    dimension, but for multiples of `vector`: the box is filled by asynchronous copies of aligned vectors, and its rows
    lie apart as those in memory do.  `at`: where the value is put, per dimension, if not as the box is dealt to the
    threads of a block: by the threads that make it.  `along`: the dimension along which lanes that put lie side by
    side, as what they make the value of lies in memory; -1: the last one.  `padded`: padding is tried until lanes that
    put and get take the fewest turns.  `packed`: what is loaded waits as it lies in memory, where elements are less
    than a word.
    """

    loops: tuple[str, ...] = ()
    unless: str = ""
    vector: int = 1
    apart: frozenset[int] = frozenset()
    rows: int = 0
    lanes: int = 0
    strides: tuple[int, ...] = ()
    at: tuple[Affine, ...] = ()
    along: int = -1
    padded: bool = False
    packed: bool = False


@dataclass(frozen=True, slots=True)
class Windows:
    """Keep what the slots `slots` of one thread need of a value at neighbouring elements in one window of registers.

    `vectors`: the values this is for, with the elements that a thread loads at once where the window is aligned.
    """

    slots: tuple[str, ...]
    vectors: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Combination:
    """How a block reads the shares of all: dealt to the thread digits `threads`, and `at_once` of them per thread."""

    threads: tuple[str, ...] = ()
    at_once: int = 1


@dataclass(frozen=True, slots=True)
class Proposal:
    """`anchors`: the place of dimension d of statement s, for every root and for the reduced dimensions of every
    reduction.  `loops`: the nest, outermost first.  Thread digits may overlap (``t`` here, ``lane`` there):
    they are refined later.  `combines`: block digits that deal reduced dimensions to blocks, with how the last block
    to arrive combines their partial results.  `finished`: anchors of what that block runs, where not those above.
    `atomic`: nothing is elected; every block merges its partial results into the result by atomic updates.
    `in_order`: block digits along which prefixes go on from block to block, with how many totals are left as one, and
    how many blocks ahead."""

    strategy: str
    parameters: tuple[tuple[str, int], ...]
    digits: tuple[Digit, ...]
    anchors: Mapping[tuple[int, int], Affine]
    loops: tuple[str, ...] = ()
    staging: Mapping[int, Staging] = field(default_factory=dict)
    guards: tuple[AnyGuard, ...] = ()
    minimum_blocks: int = 1
    cluster: int = 1  # blocks of the device that make up one block of the proposal, and share its threads
    combines: Mapping[str, Combination] = field(default_factory=dict)
    finished: Mapping[tuple[int, int], Affine] = field(default_factory=dict)
    atomic: bool = False
    in_order: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    windows: Windows = field(default_factory=lambda: Windows((), {}))
    border: bool = False  # test once per block whether it lies inside, and leave the masks out there
    ahead: tuple[str, ...] = ()  # loops whose arrays are loaded one trip before they are used
    in_step: tuple[str, ...] = ()  # loops whose trips the threads of a block begin together, whatever they share
    rings: tuple[tuple[str, int], ...] = ()  # loops whose arrays are copied to shared memory, which holds so many trips
    cells: tuple[str, int] | None = None  # a slot, and from which place of it on values wait in shared memory
