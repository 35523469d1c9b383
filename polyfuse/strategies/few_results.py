"""Sums with few results over one long class: every thread has all of them in its registers, as of a small covariance.

    s[i, j] = sum_k x[k, i] * x[k, j]        k = share*b + TX*N*U*r + TX*N*u + N*tx + n,   i and j in the registers

An element is loaded by one thread alone, however many products it is a factor of.  N elements along k are whole
accesses, whether rows of a few lie one behind the other or k runs along memory itself.  Results that are more than a
thread has registers for are dealt to a few threads that read the same: i = I*ty + i'.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, prod

from polyfuse.affine import Affine
from polyfuse.places.proposal import Proposal
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.columns import WORD
from polyfuse.strategies.held import comes_back
from polyfuse.strategies.in_thread import is_stored_along
from polyfuse.strategies.pointwise import anchors, exactly, kept_digits
from polyfuse.strategies.shares import SHARES, WAVES, combination, share_of
from polyfuse.strategies.situation import Situation, loop, mixed, power_above, power_below, slot, thread

THREADS = 256
PAIR = 2
"""Short classes at least: results along one of them, as sums of columns, read each element once in any case."""
MOST_WORDS, MOST_SHARED, MOST_SHORT = 96, 192, 16
"""Registers that a thread has for results, that a few threads have for theirs, and elements of a class beside the long
one.  On an H200, the covariance of 268 MB in 12 columns: 191 us where two threads have 72 of the results each, 286
where four have 36; by its price, 300 MB of 16 columns take 213 us, 154 in tiles in shared memory."""
IN_FLIGHT = 256
"""Bytes that a thread has on its way, where registers are left.  On an H200, x.T @ x and x.T @ y of 268 MB in 8
columns: 84 us, 157 with 64 bytes and half of the results; the covariance of as many in 8 columns 148 and 160."""


def few_results(situation: Situation) -> list[Proposal]:
    """Proposals for groups that sum over one long class, beside which there are short ones alone."""
    over = [a for a in situation.axes if a.reduced_by]
    if situation.target.kind != "cuda" or situation.scans or not over or not situation.has_much or situation.tiles:
        return []
    main = max(over, key=lambda a: (a.size(situation.hints), -a.number))
    short = [a for a in situation.axes if a is not main]
    if len(short) < PAIR or any(a.size(situation.hints) > MOST_SHORT for a in short):
        return []
    if _words(situation) > MOST_SHARED or not _repeats(situation, main) or comes_back(situation, [main]):
        return []
    if is_stored_along(situation, main):
        return []
    return list(_proposals(situation, main, short))


def _words(situation: Situation) -> int:
    """Registers for the results of all reductions over the long class."""
    of, hints, words = situation.classes.of, situation.hints, 0
    for statement in situation.reductions:
        count = prod(of[statement.id, d].size(hints) for d in statement.kept)
        words += count * sum(max(1, d.compute.itemsize // WORD) for d in statement.dtypes)
    return words


def _repeats(situation: Situation, main: AxisClass) -> bool:
    """Whether elements that lie along the long class are needed for several results."""
    for statement in situation.group.statements():
        axes = situation.classes.statement(statement)
        for read in statement.reads:
            entries = [e for e in read.index if isinstance(e, Affine)]
            along = {axes[int(n[1:])] for e in entries for n in e.names() if n.startswith("%")}
            if main in along and any(a not in along and a.size(situation.hints) > 1 for a in axes):
                return True
    return False


def _proposals(situation: Situation, main: AxisClass, short: list[AxisClass]) -> Iterator[Proposal]:
    """One per number of blocks that share the long class."""
    counts = [a.size(situation.hints) for a in short]
    size, row = max(situation.long_itemsizes, default=WORD), max(counts)
    vector = situation.target.vector_bytes // size
    dealt, longest = power_above(-(-_words(situation) // MOST_WORDS)), counts.index(row)
    n = slot("n", max(1, vector // gcd(row, vector)) if dealt == 1 else 1)
    u = slot("u", max(1, power_below(max(1, IN_FLIGHT // (n.count * row * size)))))
    held = [slot(f"o{k}", -(-count // dealt) if k == longest else count) for k, count in enumerate(counts)]
    tx, ty = thread("tx", 1, THREADS // dealt), thread("ty", THREADS // dealt, dealt)
    span = tx.count * n.count
    for waves in WAVES:
        found = share_of(situation, main, [], span * u.count, waves)
        if found is None:
            return
        (b, steps), share = found, found[1] * span * u.count
        r = loop("r", Affine.of(steps))
        splits = {main.number: mixed((b, share), (r, span * u.count), (u, span), (tx, n.count), (n, 1))}
        splits |= {axis.number: mixed((o, 1)) for axis, o in zip(short, held, strict=True)}
        splits[short[longest].number] += mixed((ty, held[longest].count))
        kept = kept_digits([b, tx, ty, r, u, n, *held], keep_threads=True)
        yield Proposal(
            "few_results",
            (("threads", THREADS), ("lanes", tx.count), ("unroll", u.count), ("rows", n.count), ("share", share)),
            kept,
            anchors(situation, splits),
            loops=("r",) if r in kept else (),
            guards=tuple(g for a, count in zip(short, counts, strict=True) for g in exactly(a.extent, count)),
            combines={b.name: combination(b, tx, situation, max(1, SHARES // -(-_words(situation) // dealt)))},
            border=True,  # a mask of single elements would take apart what lies side by side
        )
