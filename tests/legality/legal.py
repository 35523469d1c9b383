"""What a refusal is made of: legal schedules, each to be made illegal by one change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polyfuse.affine import Affine
from polyfuse.places.proposal import Combination
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import Scop
from polyfuse.verdict import Hazard
from tests.legality import programs
from tests.legality.schedules import (
    M,
    N,
    b,
    b1,
    block,
    c,
    loop,
    r,
    schedule,
    slot,
    t,
    thread,
    v,
)


@dataclass(frozen=True)
class Refusal:
    """`legal` is accepted; `tampered` is refused by `rule` with a sentence that contains `words`, and `witness`."""

    scop: Scop
    legal: KernelSchedule
    tampered: KernelSchedule
    rule: str
    hazard: Hazard
    words: str
    witness: str
    atomics: bool = False  # results may depend on the order of blocks


ROW = [block("b", N.ceildiv(32)), thread("t", 1, 32)]
CHUNKS = [block("b", N.ceildiv(64)), thread("t", 1, 16), slot("v", 4)]
CHUNK = [64 * b + 16 * v + t]


def chain() -> tuple[Scop, KernelSchedule]:
    return schedule(programs.chain(N), ROW, {"exp": [32 * b + t]})


def normalised_in_a_loop() -> tuple[Scop, KernelSchedule]:
    digits = [block("b", M), thread("t", 1, 16), loop("r", N.ceildiv(16))]
    place = [b, 16 * r + t]
    return schedule(programs.normalised(M, N, 1), digits, {"exp": place, "sum": place, "divide": place})


def row_sum(n: int) -> tuple[Scop, KernelSchedule]:
    digits = [block("b", M), thread("t", 1, 16), slot("v", 4)]
    return schedule(programs.summed(M, n, 1), digits, {"exp": [b, 16 * v + t], "sum": [b, 16 * v + t], "exp_1": [b]})


def sum_over_blocks(staged: Mapping[str, Sequence[str]] | None = None) -> tuple[Scop, KernelSchedule]:
    """Blocks of 64 elements; the last to arrive adds up to 16 shares at once."""
    x = programs.array(0, N)
    program = programs.program([x], [programs.exp(programs.reduce("sum", programs.exp(x), 0))])
    places = {"exp": CHUNK, "sum": CHUNK, "exp_1": []}
    return schedule(program, CHUNKS, places, staged=staged, combines={"b": Combination(("t",))})


def merged_rows(monoid: str = "sum") -> tuple[Scop, KernelSchedule]:
    """Blocks along b merge their shares of the row sums that blocks along c are for."""
    x = programs.array(0, M, N)
    program = programs.program([x], [programs.reduce(monoid, programs.exp(x), 1)])
    places = {"exp": [c, *CHUNK], monoid: [c, *CHUNK]}
    digits = [block("c", M), *CHUNKS]
    return schedule(program, digits, places, combines={"b": Combination(("t",))}, atomic=True)


def two_sums_over_blocks() -> tuple[Scop, KernelSchedule]:
    x = programs.array(0, N)
    sums = [programs.exp(programs.reduce(monoid, programs.exp(x), 0)) for monoid in ("sum", "max")]
    places = {"exp": CHUNK, "sum": CHUNK, "max": CHUNK, "exp_1": [], "exp_2": []}
    return schedule(programs.program([x], sums), CHUNKS, places, combines={"b": Combination(("t",))})


def row_sums_over_blocks() -> tuple[Scop, KernelSchedule]:
    places = {"exp": [c, *CHUNK], "sum": [c, *CHUNK], "exp_1": [c]}
    digits = [block("c", M), *CHUNKS]
    return schedule(programs.summed(M, N, 1), digits, places, combines={"b": Combination(("t",))})


def prefix() -> tuple[Scop, KernelSchedule]:
    digits = [block("b", M), thread("t", 1, 16), slot("v", 4)]
    place = [b, 4 * t + v]
    return schedule(programs.prefix(M, 64, 1), digits, {"exp": place, "sum": place, "exp_1": place})


def prefix_in_order() -> tuple[Scop, KernelSchedule]:
    """In pieces of 16 elements, of which a block has two."""
    digits = [block("b", M), block("b1", N.ceildiv(32)), thread("t", 1, 8), slot("c", 2), slot("v", 2)]
    place = [b, 32 * b1 + 16 * c + 2 * t + v]
    places = {"exp": place, "sum": place, "exp_1": place}
    return schedule(programs.prefix(M, N, 1), digits, places, in_order={"b1": (4, 0)})


def largest() -> tuple[Scop, KernelSchedule]:
    digits = [block("b", M), thread("t", 1, 16), slot("v", 4)]
    return schedule(programs.largest(M, 64), digits, {"argmax": [b, 4 * t + v], "argmax_1": [b]})


def staged_stencil() -> tuple[Scop, KernelSchedule]:
    place = [8 * b + t]
    digits = [block("b", N.ceildiv(8)), thread("t", 1, 8)]
    return schedule(programs.stencil(N), digits, {"add": place, "add_1": place}, staged={"exp": ()})


def staged_stencil_in_a_loop() -> tuple[Scop, KernelSchedule]:
    """A loop of 4 passes over boxes of 8 elements and their halo."""
    place = [32 * b + 8 * r + t]
    digits = [block("b", N.ceildiv(32)), thread("t", 1, 8), loop("r", 4)]
    return schedule(programs.stencil(N), digits, {"add": place, "add_1": place}, staged={"exp": ("r",)})


def upper_part(kernel: KernelSchedule) -> Affine:
    """The digit that deals the second eight cells of the box of the stencil."""
    (entry,) = kernel.by_name()["put_exp"].place
    assert isinstance(entry, Affine)
    (atom,) = (a for a, factor in entry.terms if factor == 8 and a != "$b")
    return Affine.symbol(str(atom))
