"""Storing a result over an array that the kernel reads: every read of an element happens before the store of it.

Threads of a kernel run in no order, so "before" is within one thread; what other threads, or later kernels, read of the
argument forbids reuse (write after read).  A second result in the same buffer does too (write after write).

    y[i] = f(x[i])                 x may hold y
    y[i] = x[i] + x[i-1]           refused: thread 1 reads x[0], which thread 0 overwrites
    y[i] = x[i] * sum(x)           refused where the last block to arrive reads or stores: it may be any
    y[i] = x[0] + ... + x[i]       refused where totals are left ahead: by blocks that read x[i] as well
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import product

from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.legality.lifetime import earlier
from polyfuse.legality.relations import Proof, coordinates, equalities, prime, primed, same
from polyfuse.schedule import KernelSchedule, Placed
from polyfuse.scop import Scop
from polyfuse.sets import BudgetExceeded, Constraint
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal, unknown


def may_reuse(
    scop: Scop, schedule: KernelSchedule, argument_value: int, root: int, later_loads: Collection[int] = ()
) -> Verdict:
    """Whether `schedule` may store `root` into the memory of `argument_value`, an argument or what an earlier kernel
    stored.  `later_loads`: the values that the plan's later steps read.  UNKNOWN where isl's budget is too small."""
    name = scop.statements[argument_value].name
    if argument_value in later_loads:
        sentence = f"{name} is read by a later kernel, after {scop.statements[root].name} would have overwritten it"
        return illegal(Hazard.WAR, sentence, rule="reuse")
    try:
        return _reusable(Proof(scop, schedule), argument_value, root)
    except BudgetExceeded as reason:
        return unknown(f"{schedule.name}: reuse of {name} was not decided: {reason.message}", rule="reuse")


def reused(proof: Proof) -> Verdict:
    """The pairs of `schedule.reuses`, each and none twice."""
    taken: dict[int, int] = {}
    for argument, root in proof.schedule.reuses:
        if taken.setdefault(argument, root) != root:
            first, second = (proof.scop.statements[r].name for r in (taken[argument], root))
            sentence = f"{first} and {second} are both stored into {proof.scop.statements[argument].name}"
            return illegal(Hazard.WAW, sentence, rule="reuse")
        verdict = _reusable(proof, argument, root)
        if not verdict:
            return verdict
    return LEGAL


def _reusable(proof: Proof, argument: int, root: int) -> Verdict:
    source, result = proof.scop.statements[argument], proof.scop.statements[root]
    if argument in proof.schedule.body or root not in proof.schedule.roots:
        sentence = f"{result.name} cannot be stored into {source.name}: not a result of this kernel and one it reads"
        return illegal(Hazard.WAW, sentence, rule="reuse")
    if source.shape != result.shape or source.dtypes != result.dtypes:
        sentence = f"{result.name} does not fit into {source.name}: shape or dtype differ"
        return illegal(Hazard.BOUNDS, sentence, rule="reuse")
    if root in proof.schedule.filled:
        sentence = f"{result.name} is filled before the kernel reads {source.name}: they need memory of their own"
        return illegal(Hazard.WAR, sentence, rule="reuse")
    loads = [p for p in proof.schedule.placed if p.role == "load" and p.value == argument]
    stores = [p for p in proof.schedule.placed if p.role == "store" and p.value == root]
    for move in (*loads, *stores):
        if along := proof.schedule.finish_of(move):
            sentence = f"{move.name} runs in whichever block along {along} arrives last: {source.name} keeps its memory"
            return illegal(Hazard.WAR, sentence, rule="reuse")
    ahead = proof.schedule.summed_ahead()
    if load := next((load for load in loads if load.name in ahead), None):
        sentence = f"{load.name} is also read by another block, for a total left ahead: {source.name} keeps its memory"
        return illegal(Hazard.WAR, sentence, rule="reuse")
    for load, store in product(loads, stores):
        verdict = _read_first(proof, load, store)
        if not verdict:
            return verdict
    return LEGAL


def _read_first(proof: Proof, load: Placed, store: Placed) -> Verdict:
    """No element is read by another thread than the one that stores it, nor after it is stored."""
    everywhere = proof.names("block") | proof.names("thread")
    ours = proof.digits_of(load) | everywhere
    names = coordinates("i", len(store.place))
    read = [(n, prime(e, ours)) for n, e in zip(names, load.place, strict=True) if isinstance(e, Affine)]
    base = (
        *equalities(names, proof.index(store)),
        *equalities([n for n, _ in read], [e for _, e in read]),
        *primed((*proof.box(ours), *proof.valid(load)), ours),
        *proof.box(proof.digits_of(store) | everywhere),
        *proof.valid(store),
        *proof.executes(store),
    )
    for who, differ in (*_apart(proof), *_not_before(proof, load, store)):
        point = sets.sample(proof.relation(names, (*base, *differ)))
        if point is not None:
            witness = proof.witness(point, (proof.name(load), names), (proof.name(store), names))
            verb = "read" if len(read) == len(names) else "possibly read (its position is data)"
            sentence = f"{witness.first} is {verb} {who} {witness.second} is stored into the same element"
            return illegal(Hazard.WAR, sentence, witness, rule="reuse")
    return LEGAL


def _apart(proof: Proof) -> Iterator[tuple[str, tuple[Constraint, ...]]]:
    """Different blocks, or different threads of one block."""
    for kind in ("block", "thread"):
        for d in sorted(proof.names(kind)):
            distance = Affine.symbol(f"${d}'") - Affine.symbol(f"${d}")
            for differ in (distance - 1, -distance - 1):
                yield f"by another {kind}, unordered with the one where", (Constraint(differ),)


def _not_before(proof: Proof, load: Placed, store: Placed) -> Iterator[tuple[str, tuple[Constraint, ...]]]:
    """The store runs before the load in the same thread.  (They are two leaves, so never at once.)"""
    thread = same(proof.names("block") | proof.names("thread"))
    for way in earlier(proof, store, load):
        loops = [loop for loop in proof.loops(store) if loop in proof.loops(load)]
        swap = {f"${loop}'": Affine.symbol(f"${loop}") for loop in loops}
        swap |= {f"${loop}": Affine.symbol(f"${loop}'") for loop in loops}
        turned = tuple(Constraint(c.expression.substitute(swap), c.kind, c.modulus) for c in way)
        yield "after", (*thread, *turned)
