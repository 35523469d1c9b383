"""How much the search may cost: a bound that grows linearly with the program, whatever the program is.

Work is what `Costs.work` counts, and `TRIAL` for every move that is tried.  Over the first limit only small kernels are
weighed: neighbours still meet, while large ones, which cost most to price and are most often refused, stay as they are.
Over the second nothing new is.
"""

from __future__ import annotations

from dataclasses import dataclass

from polyfuse.verdict import unknown

BASE, EACH = 150_000, 60
"""Work of a search, and more per statement.  A unit takes about a tenth of a millisecond of a busy core; of 15 kinds of
programs of 1,000 statements five reached it with a base of 40,000 (benchmarks/results/planning.json), and so did the
random bits of a dropout, which are to stay one kernel (docs/what-blocks-fusion.md)."""

UNIT = 1e-4
"""Seconds of a core that a unit of work stands for where a user grants seconds: counted, so that a plan is the same on
every machine, whatever else it does."""

TRIAL = 2
"""Work of trying one move whose kernels have prices already: 13 reductions of one array over different axes tried
40,000 moves, and took longer over them than over the 44,000 statements they placed."""

OFFERS = 3
"""Moves that are entered, with a bound of what they win, per unit of work: a Cholesky factorisation of 12 columns in
static loops entered 394,000, half of its planning."""

PATIENT = 20_000
"""Work up to which the best of all moves at hand is looked for before one is made; after that a move is made that wins
as much as it was hoped to but for one part in CLOSE.  Where kernels take little more than their launches nearly every
move does: of a forward substitution of 32 unknowns in static loops 16 kernels were left when the work was spent, and
5 so."""
CLOSE = 64

MEMORY = 8
"""Moves over which it is averaged how much of what was hoped for came true.  Values that are not stored any more save
bytes, while bounds hope for all that kernels take beyond their launches: of 54 such moves of a Cholesky factorisation
of 16 columns, at 2,400 units each, the last 42 won nothing."""

SMALL = 12  # statements of the kernels of a move that is weighed over the first limit
SMALLER = 0.5  # of the first limit: what small kernels may take beyond it


@dataclass(frozen=True, slots=True)
class Allowance:
    """Work over which large moves, and all moves, are refused unweighed.  `start`: where the search began; behind the
    first half of the work a move that can win but a part of a launch is weighed while no more than that part of the
    other half is done."""

    large: float
    all: float
    start: float = 0

    def part(self, share: float) -> Allowance:
        """That share of the same work."""
        start = self.start
        return Allowance(start + share * (self.large - start), start + share * (self.all - start), start)

    def within(self, granted: int | None) -> Allowance:
        """The same where so much work is `granted` in all."""
        if granted is None:
            return self
        most = allowance(0, granted=granted)
        return Allowance(min(self.large, most.large), min(self.all, most.all), self.start)

    def permits(self, work: int, size: int, launches: float) -> bool:
        """Whether a move that touches kernels of `size` statements in all, and hopes to win what so many launches take,
        may still be weighed."""
        small = size <= SMALL
        most = self.all if small else self.large
        part = (1 + launches) / 2 * (most - self.start)
        return work <= most and (small or work - self.start <= part)


NOTHING = Allowance(0, 0)

SEARCHED = 0.75  # of what a user grants: the first search, the rest is for those after refused proofs
AGAIN = 10_000  # work of a search that goes on after a proof refused a kernel: most prices are remembered
AGAIN_IN_ALL = 50_000  # of all of them: what proofs refuse after that is taken apart and stays so


def further(done: int, left: int = AGAIN_IN_ALL) -> Allowance:
    """Of a search that goes on, when `done` work lies behind it and `left` may be spent on all that follow."""
    most = max(0, min(AGAIN, left))
    return Allowance(done + most, done + most * (1 + SMALLER), done)


def allowance(statements: int, done: int = 0, granted: int | None = None) -> Allowance:
    """Of a search over that many statements, when `done` work lies behind it.  `granted`: work that the user allows
    it and all that follow; by default it grows with the program."""
    large = BASE + EACH * statements if granted is None else granted * SEARCHED / (1 + SMALLER)
    return Allowance(done + large, done + large * (1 + SMALLER), done)


def left_over(granted: int | None, done: int) -> int | None:
    """Of what a user grants, if there is a limit, after `done` work."""
    return None if granted is None else max(0, granted - done)


def left_for_refusals(granted: int | None) -> int:
    """Of all searches after refused proofs, so that they and the first together stay within what is granted."""
    return AGAIN_IN_ALL if granted is None else int(granted * (1 - SEARCHED) / (1 + SMALLER))


UNWEIGHED = "possible fusions were not weighed: planning had cost what it may; planning_seconds= allows more"
SPENT = unknown("the work that planning may take was spent before this was weighed", rule="allowance")
