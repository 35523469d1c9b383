"""Answers after the search: its own steps, asked again of the final partition."""

from __future__ import annotations

from polyfuse.grouping.moves import HULL, drop, join
from polyfuse.grouping.queue import Queue, loss
from polyfuse.verdict import Kind, Verdict, unknown

BESIDE = Verdict(Kind.LEGAL, "one launch computes both, side by side in blocks of their own")
TOGETHER = Verdict(Kind.LEGAL, "one kernel computes both")
NOT_STORED = Verdict(Kind.LEGAL, "the value is not written to memory")
READ = Verdict(Kind.LEGAL, "an input lies in memory: every kernel reads it where it needs it")
NOT_NEEDED = Verdict(Kind.LEGAL, "no kernel computes the value: no output needs it")
ALWAYS_STORED = Verdict(Kind.ILLEGAL, "an output, or a value that may be computed only once, is always stored")


def sharing(queue: Queue, u: int, v: int) -> Verdict:
    """Why no kernel computes both `u` and `v`.  Where several kernels compute them, a price is preferred to a reason
    against legality: what is legal but slower is the closest to being fused."""
    state = queue.state
    found: Verdict | None = None
    for a in sorted(state.users[u], key=state.names.__getitem__):
        for b in sorted(state.users[v], key=state.names.__getitem__):
            if a == b:
                return TOGETHER
            verdict = _joined(queue, a, b)
            if found is None or verdict.kind is Kind.UNPROFITABLE:
                found = verdict
    if found is not None:
        return found
    return READ if state.is_input[u] or state.is_input[v] else NOT_NEEDED


def storing(queue: Queue, value: int) -> Verdict:
    """Why `value` is written to memory: what keeps its readers from recomputing it."""
    state = queue.state
    if value not in state.owner:
        return NOT_STORED
    move = drop(state, value)
    if move is None:
        return ALWAYS_STORED
    trial = queue.trial(move)
    verdict = queue.refusal(move, trial)
    return _priced(trial.gain) if verdict else verdict


def _joined(queue: Queue, a: int, b: int) -> Verdict:
    move = join(queue.state, a, b)
    if move is None:
        return unknown(f"more than {HULL} kernels lie on the paths between them")
    trial = queue.trial(move)
    verdict = queue.refusal(move, trial)
    return _priced(trial.gain) if verdict else verdict


def _priced(gain: int) -> Verdict:
    if gain <= 0:
        return loss(gain)
    return unknown(f"legal and {gain / 1e6:g} us faster, but not among the moves that the search tried")
