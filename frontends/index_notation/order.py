"""Updates in place: which reads of the target meet values that the statement itself has written.

A[i] = A[i + 1] + b[i]        i ascending: no earlier instance writes A[i + 1]; all values read are old
s[i] = s[i - 1] + b[i]        the instance before writes s[i - 1]: a recurrence
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyfuse.affine import Affine
from polyfuse.errors import IndexingError
from polyfuse.frontends.index_notation.affine_terms import affine, keys_of
from polyfuse.frontends.index_notation.bounds import Bounds, Space, text_of
from polyfuse.frontends.index_notation.terms import Access, Index, Term


def reads_of_new_values(
    target: Access, value: Term, outer: Sequence[Index], space: Space, bounds: Bounds
) -> list[Access]:
    """The accesses in `value` whose elements earlier instances have written.  Raises IndexingError for accesses that
    meet old and new values."""
    found = []
    for term in value.walk():
        if not isinstance(term, Access) or term.array.buffer is not target.array.buffer:
            continue
        if term.held is target.held and meets_new_values(term, target, [i.key for i in outer], space, bounds):
            found.append(term)
    return found


def meets_new_values(term: Access, target: Access, order: Sequence[str], space: Space, bounds: Bounds) -> bool:
    """Whether earlier instances have written the element that `term` reads.  Raises IndexingError where only some of
    its elements."""
    from polyfuse.index_proofs import written_after, written_before  # isl: loaded for updates in place only

    read, written = _elements(term), _elements(target)
    if read is None or written is None:
        raise IndexingError(
            f"{text_of(term)} is chosen by values, so the order of this update in place cannot be proved",
            advice=f"Read from a copy: old = {term.name}.copy().",
            source=term.location.source() if term.location else None,
        )
    if read == written:
        return False
    own = sorted(keys_of(read) - set(order))
    reader = bounds.domain([*order, *own], space, space.guards)
    writer = bounds.domain(order, space, ())
    before = written_before(reader, read, writer, written, order)
    if before is None:
        return False
    after = written_after(reader, read, writer, written, order)
    if after is None:
        return True
    raise IndexingError(
        f"{text_of(term)} meets new values ({_meeting(before, read, order)}) and old ones "
        f"({_meeting(after, read, order)}) of an update in place",
        advice=f"Read from a copy, old = {term.name}.copy(), for the old values everywhere.",
        source=term.location.source() if term.location else None,
    )


def _elements(term: Access) -> list[Affine] | None:
    """The element of the buffer that `term` names; views of one buffer are compared there."""
    entries = [affine(s) for s in term.subscripts]
    known = [e for e in entries if e is not None]
    if len(known) < len(entries):
        return None
    if term.array.path is None:
        return known
    at = {f"%{k}": e for k, e in enumerate(known)}
    return [e.substitute(at) for e in term.array.path.index]


def _meeting(point: Any, read: Sequence[Affine], order: Sequence[str]) -> str:
    def at(prime: str) -> str:
        return ", ".join(f"{key[1:]} = {point[key + prime]}" for key in order)

    element = ", ".join(str(e.evaluate(point)) for e in read)
    return f"element [{element}] is read at {at('')} and written at {at(chr(39))}"
