"""The queue: the best move at hand is bounded, then priced, then proved, then made.

Score is the gain per kernel merged, so that a wide hull does not beat two good pairs.  Bounds, gains and names are
integers that depend on structure only; neither the order of discovery nor hashing changes what is popped first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from zlib import crc32

from polyfuse.grouping.allowance import CLOSE, MEMORY, OFFERS, PATIENT, SPENT, TRIAL, Allowance
from polyfuse.grouping.least import Least
from polyfuse.grouping.moves import Move, detach, drop, join, merged, passed, reload, repeat, thin
from polyfuse.grouping.partition import KernelGroup, Partition, Sketch
from polyfuse.grouping.rules import Identity, Judge, Rules
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal, unprofitable
from polyfuse.verdict import Kind as Answer

RECOMPUTED = 32  # statements that one move may recompute; of 134 prices of large kernels 50 asked for more, none won
NARROWLY = 0.05
"""Of what kernels take, up to which one kernel and several may differ by the schedules that are worth a price, before
it is priced with all of them: a softmax of rows of 100001 bfloat16 in loops 148.8 us, in two kernels 146, held 136."""
SEVERAL, CLOSELY = 4, 4
"""Siblings that are tried as one kernel once two of them are, which takes no more than one part in so many beyond its
bytes: where it does, fewer in each may be faster.  Eight autocorrelations of rows, with ten sums over the same array,
were 60 prices of ever larger kernels; 40 products with neighbours are to take 460 us in three kernels, 543 in one."""
NEAR = 4  # neighbours offered where there may be many: siblings over one shared value, extensions of an illegal join


class Kind(IntEnum):
    """Moves and their arguments: two kernels, a value, or a kernel and a value."""

    JOIN = 0
    DROP = 1
    THIN = 2
    DETACH = 3
    REPEAT = 4
    RELOAD = 5
    PASS = 6


@dataclass(frozen=True, slots=True)
class Trial:
    """A move carried out on paper: picoseconds won and the kernels that result, or the rule that forbids one of them
    whatever it costs.  Where the first kernels and what the others take at least are no gain, these have no price: what
    is won is as much at most, and `is_whole` false."""

    gain: int
    kernels: tuple[KernelGroup, ...]
    forbidden: Verdict = LEGAL
    is_whole: bool = True


Part = tuple[frozenset[int], frozenset[int], frozenset[int]]
"""Roots, body and loads of a kernel that a move makes."""

Entry = tuple[int, int, tuple[int, ...], Kind, tuple[int, ...], int, bool]


class Queue:
    """Moves by score.  `window`: None, or the kernels outside of which nothing may change.  `salt`: perturbs scores.
    `passes`: whether kernels that compute the same are offered to pass it on; those that grow from single statements
    store it from the first.

    `log` keeps, per pair of values (least roots of the two kernels; one value twice where it was to be recomputed), the
    last reason against the move.
    """

    __slots__ = (
        "state", "judge", "log", "window", "salt", "passes", "origin", "allowance", "unweighed", "tried", "offered",
        "_bounds", "_came_true", "_heap", "_launch", "_least", "_trials",
    )  # fmt: skip

    def __init__(self, state: Partition, judge: Judge, allowed: Allowance) -> None:
        self.state = state
        self.judge = judge
        self.log: dict[tuple[int, int], Verdict] = {}
        self.window: set[int] | None = None
        self.salt = 0
        self.passes = False
        self.origin = 0  # from which perturbed scores count names, so that windows that are alike are rebuilt alike
        self.allowance = allowed
        self.unweighed = 0  # moves that were refused for what they would cost to price
        self.tried = 0  # moves, each once
        self.offered = 0  # moves, each time
        self._came_true = 1.0  # how much of what was hoped for, of moves that take no kernel away: a moving average
        self._heap: list[Entry] = []
        self._launch = max(1, state.costs.floor(frozenset(), frozenset()))
        self._least = Least(state.costs)
        self._trials: dict[tuple[Move, frozenset[int]], Trial] = {}
        self._bounds: dict[tuple[Move, frozenset[int]], int] = {}

    # ------------------------------------------------------------------------------------------------ price and proof
    def trial(self, move: Move) -> Trial:
        """Remembered: a kernel's number fixes its content, and `again` which values in it others store."""
        key = self._key(move)
        known = self._trials.get(key)
        if known is None or not known.is_whole:
            self.tried += known is None
            known = self._trials[key] = self._tried(move, whole=True)
        return known

    def _gaining(self, move: Move) -> Trial:
        """The trial of a move that is made only if it wins."""
        key = self._key(move)
        known = self._trials.get(key)
        if known is None:
            self.tried += 1
            known = self._trials[key] = self._tried(move, whole=False)
        return known

    @property
    def work(self) -> int:
        """What planning has cost so far, in the units of the allowance."""
        return self.state.costs.work + TRIAL * self.tried + self.offered // OFFERS

    def weighed(self, move: Move, hoped: int) -> Trial:
        """The trial of a move that may win what is `hoped`, but forbidden where learning it would exceed what the
        search may cost."""
        if self._key(move) in self._trials:
            return self._gaining(move)
        merges = len(move.old) > len(move.new)
        if not self._permitted(move, hoped if merges else hoped * self._came_true):
            self.unweighed += 1
            return Trial(0, (), SPENT)
        trial = self._gaining(move)
        if not merges and hoped > 0:
            self._came_true += (max(0, trial.gain) / hoped - self._came_true) / MEMORY
        return trial

    def _key(self, move: Move) -> tuple[Move, frozenset[int]]:
        again = self.state.again
        return move, frozenset().union(*[again[k] for k in move.old], *[again[k] for k in move.seen])

    def _permitted(self, move: Move, hoped: float) -> bool:
        kernels = self.state.kernels
        size = sum([len(kernels[k].body) for k in move.old])
        return self.allowance.permits(self.work, size, hoped / self._launch)

    def _tried(self, move: Move, *, whole: bool) -> Trial:
        """The outcome of a move; rules are asked before the price, because they cost nothing.  Unless it is to be
        `whole`, it ends where nothing can be won any more."""
        parts, kept = self._parts(move), self._kept(move)
        if not (verdict := self._allowed(parts, kept)):
            return Trial(0, (), verdict)
        left = sum([self.state.kernels[k].time for k in move.old])
        least = [0] * len(parts) if whole else [self._least.time(*part) for part in parts]
        kernels: dict[int, KernelGroup] = {}
        for k in sorted(range(len(parts)), key=lambda k: -len(parts[k][1])):  # the largest is most often what loses
            rest = sum([least[other] for other in range(len(parts)) if other not in kernels])
            if not whole and left <= rest:
                return Trial(left - rest, tuple(kernels.values()), is_whole=False)
            roots, body, loads = parts[k]
            kernels[k] = KernelGroup(roots, body, loads, self.state.costs.price(body, roots, loads))
            left -= kernels[k].time
            if (body, roots) not in kept:
                self._least.learn(kernels[k])
        return Trial(left, tuple([kernels[k] for k in range(len(parts))]))

    def narrow(self, move: Move) -> Trial | None:
        """The trial of a move that makes one kernel and loses little by the schedules that are worth a price: by all of
        them.  None for any other."""
        trial = self.trial(move)
        before = sum([self.state.kernels[k].time for k in move.old])
        if len(trial.kernels) != 1 or not 0 <= -trial.gain <= NARROWLY * before:
            return None
        (kernel,) = trial.kernels
        time = self.state.costs.whole_price(kernel.body, kernel.roots, kernel.loads)
        return Trial(before - time, (replace(kernel, time=time),))

    def _allowed(self, parts: list[Part], kept: set[Identity]) -> Verdict:
        """Whether the user's wishes let a move make its kernels."""
        for roots, body, _ in parts:
            if (body, roots) not in kept:
                verdict = self.judge.rules.allows(body, roots)
                if not verdict:
                    return verdict
        return LEGAL

    def _kept(self, move: Move) -> set[Identity]:
        """Kernels that stand already need no second proof."""
        return {(k.body, k.roots) for k in map(self.state.kernels.__getitem__, move.old)}

    def _parts(self, move: Move) -> list[Part]:
        """Roots, body and loads of the kernels that a move makes, less the roots that nobody loads any more."""
        state = self.state
        gone = frozenset().union(*[state.kernels[k].roots for k in move.old])
        wanted = move.new
        while True:
            made = frozenset().union(*[sketch.roots for sketch in wanted])
            parts = [(sketch.roots, *state.closure(sketch, gone, made)) for sketch in wanted]
            loaded = frozenset().union(*[loads for _, _, loads in parts])
            vain = made - loaded - state.needed(made - loaded, move.old)
            if not vain:
                return parts
            wanted = tuple([Sketch(rest, s.again) for s in wanted if (rest := s.roots - vain)])

    def refusal(self, move: Move, trial: Trial) -> Verdict:
        """Legal, or the reason against the first kernel that may not be."""
        kept = self._kept(move)
        for kernel in trial.kernels:
            if (kernel.body, kernel.roots) not in kept:
                verdict = self.judge.verdict(kernel)
                if not verdict:
                    return verdict
        return trial.forbidden

    def bound(self, move: Move) -> int:
        """An optimistic gain: what the boundaries alone must cost; none for too much recomputation.  Remembered as
        trials are: whatever is made near them, moves are offered again (of a Cholesky factorisation of 24 columns
        77,000 of 9,000)."""
        key = self._key(move)
        known = self._bounds.get(key)
        if known is None:
            known = self._bounds[key] = self._bounded(move)
        return known

    def _bounded(self, move: Move) -> int:
        state, floor = self.state, self.state.costs.floor
        old = [state.kernels[k] for k in move.old]
        gone = frozenset().union(*[k.roots for k in old])
        before = sum([k.time for k in old])
        if len(move.new) == 1 and not move.new[0].again and len(old) > 1:
            return before - floor(move.new[0].roots, frozenset().union(*[k.loads for k in old]) - gone)
        made = frozenset().union(*[sketch.roots for sketch in move.new])
        parts = [state.closure(sketch, gone, made) for sketch in move.new]
        if sum([len(body) for body, _ in parts]) > sum([len(k.body) for k in old]) + RECOMPUTED:
            return 0
        return before - sum([floor(s.roots, loads) for s, (_, loads) in zip(move.new, parts, strict=True)])

    def hoped(self, move: Move) -> int:
        """What a move can win by the prices of what its kernels contain: less than its bound, and dearer to learn."""
        known = self._trials.get(self._key(move))
        if known is not None:
            return known.gain
        return sum([self.state.kernels[k].time for k in move.old]) - sum(
            [self._least.time(*part) for part in self._parts(move)]
        )

    def _vain(self, move: Move, hoped: int) -> Trial:
        """Of a move that cannot win: what is `hoped`, or the wish against it."""
        return Trial(hoped, (), self._allowed(self._parts(move), self._kept(move)))

    # ------------------------------------------------------------------------------------------------ offers
    def offer(self, kind: Kind, *arguments: int) -> None:
        """Enter a move under its optimistic gain, unless none is weighed any more."""
        if self.work > self.allowance.all:
            self.unweighed += 1
            return
        self.offered += 1
        move = self._move(kind, arguments)
        if move is not None:
            self._push(kind, arguments, move, self.bound(move), priced=False)

    def offer_join(self, a: int, b: int) -> None:
        names = self.state.names
        self.offer(Kind.JOIN, *((a, b) if names[a] < names[b] else (b, a)))

    def offer_around(self, number: int) -> None:
        """Every move that the kernel takes part in: producers, consumers, siblings; its stored and loaded values."""
        state = self.state
        kernel = state.kernels[number]
        near = state.successors(number) | state.predecessors(number)
        for value in kernel.loads:
            near.update(self.nearest(number, state.readers[value], NEAR))
        near.discard(number)
        for other in sorted(near, key=state.names.__getitem__):
            self.offer_join(number, other)
            if self.passes and not kernel.body.isdisjoint(state.kernels[other].body):
                self.offer(Kind.PASS, number, other)
                self.offer(Kind.PASS, other, number)
        for value in sorted(kernel.roots | kernel.loads):
            if value in state.owner:
                self._offer_value(value)
        for value in sorted(state.again[number]):
            self.offer(Kind.RELOAD, number, value)

    def _offer_value(self, value: int) -> None:
        """Moves of a stored value: nobody stores it, or one reader or former user treats it differently."""
        state = self.state
        if not state.pinned[value]:
            self.offer(Kind.DROP, value)
            self.offer(Kind.THIN, value)
        if state.pinned[value] or len(state.readers[value]) > 1:
            for reader in sorted(state.readers[value], key=state.names.__getitem__):
                self.offer(Kind.REPEAT, reader, value)
        if len(state.users[value]) > 1:
            for user in sorted(state.users[value], key=state.names.__getitem__):
                self.offer(Kind.RELOAD, user, value)

    def nearest(self, number: int, others: Iterable[int], count: int) -> list[int]:
        """Of `others`, the `count` kernels whose names are closest to that of `number`."""
        names = self.state.names
        name = names[number]
        candidates = [k for k in others if k != number]
        return heapq.nsmallest(count, candidates, key=lambda k: (abs(names[k] - name), names[k]))

    def _move(self, kind: Kind, arguments: tuple[int, ...]) -> Move | None:
        """The move as the partition is now; None if it no longer exists or reaches out of the window."""
        state, first, last = self.state, arguments[0], arguments[-1]
        if kind is Kind.DROP or kind is Kind.THIN:
            move = drop(state, first) if kind is Kind.DROP else thin(state, first)
        elif first not in state.kernels:
            return None
        elif kind is Kind.REPEAT or kind is Kind.RELOAD:
            move = repeat(state, first, last) if kind is Kind.REPEAT else reload(state, first, last)
        elif last not in state.kernels:
            return None
        elif kind is Kind.PASS:
            move = passed(state, first, last)
        else:
            move = join(state, first, last) if kind is Kind.JOIN else detach(state, first, last)
        return move if move is None or self.window is None or move.old <= self.window else None

    def _push(self, kind: Kind, arguments: tuple[int, ...], move: Move, gain: int, *, priced: bool) -> None:
        if gain <= 0:
            return
        state = self.state
        names = arguments
        if kind in (Kind.JOIN, Kind.DETACH, Kind.PASS):
            names = (state.names[arguments[0]], state.names[arguments[1]])
        elif len(arguments) == 2:
            names = (arguments[1], state.names[arguments[0]])
        size = sum([len(state.kernels[k].body) for k in move.old])
        score = gain // max(1, len(move.old) - len(move.new))
        if self.salt:
            relative = tuple([name - self.origin for name in names])
            score = score * (64 + crc32(repr((self.salt, int(kind), relative)).encode()) % 192) // 128
        heapq.heappush(self._heap, (-score, size, names, kind, arguments, gain, priced))

    # ------------------------------------------------------------------------------------------------ the loop
    def drain(self) -> None:
        """Make moves, best first, until none wins; every move that is popped and not made is logged."""
        while self._heap:
            _, _, names, kind, arguments, gain, priced = heapq.heappop(self._heap)
            move = self._move(kind, arguments)
            if move is None:
                continue
            hoped = self.hoped(move)
            trial = self.weighed(move, gain) if hoped > 0 else self._vain(move, hoped)
            verdict = trial.forbidden
            if verdict == SPENT:
                continue
            if verdict and trial.gain <= 0:
                verdict = loss(trial.gain)
            if verdict and not (trial.gain == gain if priced else trial.gain > gain - self._tolerance(gain)):
                self._push(kind, arguments, move, trial.gain, priced=True)
                continue
            verdict = verdict and self.refusal(move, trial)
            siblings = kind is Kind.JOIN and self._are_siblings(*arguments)
            verdict = verdict and self.make(move, trial)
            if verdict and siblings:
                self._join_rest(self.state.owner[min(trial.kernels[0].roots)])
            if not verdict:
                self._note(names, verdict)
                if kind is Kind.JOIN:
                    self._other_ways(move, verdict, *arguments)

    def _tolerance(self, gain: int) -> int:
        """What a move may win less than hoped for, and be made at once: no move at hand can be hoped to win more."""
        return 0 if self.work <= PATIENT else gain // CLOSE

    def _other_ways(self, move: Move, verdict: Verdict, a: int, b: int) -> None:
        """Moves that a refused join suggests."""
        if verdict.kind is not Answer.UNPROFITABLE and verdict.hazard is not Hazard.STEERING:
            self._extend(a, b)
        if len(move.old) > 2:
            self.offer(Kind.DETACH, a, b)

    def _extend(self, a: int, b: int) -> None:
        """Legality is not hereditary (scores and row maximum may not be one kernel where whole attention is): offer an
        illegal join of producer and consumer again, one kernel longer on either side."""
        state = self.state
        if b not in state.successors(a):
            a, b = b, a
        if b in state.successors(a):
            for further in self.nearest(b, state.successors(b), NEAR):
                self.offer_join(a, further)
            for further in self.nearest(a, state.predecessors(a), NEAR):
                self.offer_join(further, b)

    def make(self, move: Move, trial: Trial) -> Verdict:
        """Carry out a legal move and offer what it makes possible; refused if kernels would wait for each other."""
        fresh = self.state.replace(move.old, trial.kernels)
        if fresh is None:
            return CYCLE
        if self.window is not None:
            self.window = (self.window - move.old) | set(fresh)
        for number in fresh:
            self.offer_around(number)
        return LEGAL

    def _are_siblings(self, a: int, b: int) -> bool:
        """Whether neither of two kernels reads what the other stores."""
        return b not in self.state.successors(a) and a not in self.state.successors(b)

    def _join_rest(self, number: int) -> None:
        """All that read the array that a kernel made of two siblings reads, where as one they take about what its
        bytes take: one by one they would win as well, each priced with all before it."""
        state = self.state
        shared = max(state.kernels[number].loads, key=self._moved, default=-1)
        readers = state.readers[shared] if shared >= 0 else ()
        members = frozenset([number, *[k for k in readers if state.hull(number, k) == {number, k}]])
        if len(members) < SEVERAL or self.window is not None and not members <= self.window:
            return
        move = merged(state, members)
        hoped = self.hoped(move)
        trial = self.weighed(move, hoped) if hoped > 0 else None
        if trial is None or not trial.is_whole or len(trial.kernels) != 1:
            return
        if (self.bound(move) - trial.gain) * CLOSELY <= trial.kernels[0].time and self.refusal(move, trial):
            self.make(move, trial)

    def _moved(self, value: int) -> tuple[int, int]:
        """What reading a value takes at least, ties by rank."""
        return self.state.costs.floor(frozenset(), frozenset((value,))), -value

    def rule(self, rules: Rules) -> None:
        """From now on other rules hold: what was tried and proved under the old ones is forgotten."""
        self.judge = Judge(self.state.costs, rules)
        self.forget()

    def forget(self) -> None:
        """Forget what was tried: of kernels that have other prices since."""
        self._trials.clear()
        self._bounds.clear()

    def _note(self, names: tuple[int, ...], verdict: Verdict) -> None:
        if not self.salt:
            self.log[names[0], names[-1]] = verdict

    def swap_heap(self, heap: list[Entry]) -> list[Entry]:
        """Put another heap in place; the one that was there."""
        self._heap, heap = heap, self._heap
        return heap


def loss(gain: int) -> Verdict:
    """Why a move that does not win is not made."""
    return unprofitable("one kernel is not faster than apart", loss_us=-gain / 1e6)


CYCLE = illegal(Hazard.RAW, "two kernels would each need a result of the other", rule="acyclic")
