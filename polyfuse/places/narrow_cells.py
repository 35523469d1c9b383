"""Cells of shared memory that hold what memory does: 16-bit floats wait in half of the room, moved in half of the time.

    x = load bfloat16; mean(x); x waits for it, then its distances are squared:   2 bytes of shared memory each
    e = exp(x - max(x)) waits for its sum in the cells of x:                      4 bytes, as in registers

Instance norms of 16 x 21 x 512 x 512 bfloat16 take an H200 105 us so; with 4 bytes for each they took 138, and a thread
spilled 172.
"""

from __future__ import annotations

from polyfuse.dtypes import DType
from polyfuse.scalars import CASCADES
from polyfuse.schedule import KernelSchedule, Placed
from polyfuse.scop import Scop


def as_in_memory(scop: Scop, schedule: KernelSchedule) -> dict[str, DType]:
    """The loads that wait in cells as memory has them, and what that is: 16-bit floats, in half of the shared memory,
    where no value that is computed takes their cells after them."""
    cells = schedule.cells
    cascades = [CASCADES.get(getattr(scop.statements[value], "monoid", None) or "") for value in schedule.body]
    if cells is None or schedule.threads == 1 or any(c is not None and not c.means for c in cascades):
        return {}  # those without means put exponentials into the cells of what they take
    by_name = schedule.by_name()
    slots = {d.name for d in schedule.of_kind("slot")}
    alike: dict[tuple[DType, frozenset[str]], list[Placed]] = {}
    for placed in (by_name[name] for name in cells.values):
        compute = scop.dtype(placed.value, placed.component).compute
        alike.setdefault((compute, placed.digits() & slots), []).append(placed)
    found: dict[str, DType] = {}
    for waiting in alike.values():
        dtypes = {scop.dtype(p.value, p.component) for p in waiting}
        if len(dtypes) == 1 and all(p.role == "load" for p in waiting):
            (dtype,) = dtypes
            found |= {p.name: dtype for p in waiting if is_narrow(dtype)}
    return found


def is_narrow(dtype: DType) -> bool:
    """Whether registers hold floats of a dtype in more bytes than memory does."""
    return dtype.is_float and dtype.itemsize < dtype.compute.itemsize
