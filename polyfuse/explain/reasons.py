"""Why a kernel is legal, in words: where each value that is handed on lives, and which theorem makes that right."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from polyfuse.explain.kernels import KernelView, StatementView
from polyfuse.schedule import Scope, SharedBox, window_index


def reasons(kernel: KernelView) -> Iterator[str]:
    """One sentence per value that stays inside the kernel, per staged value, and one on what is stored."""
    for view in (*kernel.loads, *kernel.statements):
        box = next((b for b in kernel.schedule.shared if b.value == view.value), None)
        if box is not None:
            yield _staged(kernel, view, box)
        elif sizes := _windows(kernel, view):
            yield _in_windows(kernel, view, sizes)
        elif not view.is_load and (readers := _readers(kernel, view)):
            yield _in_registers(kernel, view, readers)
        if view.scope is Scope.SPLIT:
            yield _in_two_parts(kernel, view)
    yield from _in_order(kernel)
    merged = [kernel.scop.statements[value].name for value in kernel.schedule.filled]
    if stored := ", ".join(name for name in kernel.stores if name not in merged):
        yield f"every element of {stored} is stored, by one thread only"
    if merged:
        yield (
            f"a launch before fills {', '.join(merged)} with what changes no result; every block merges each of its "
            "shares in by one atomic update, in an order that varies from run to run"
        )


def _in_order(kernel: KernelView) -> Iterator[str]:
    """Why blocks may wait for others."""
    schedule, scop = kernel.schedule, kernel.scop
    placed = schedule.by_name()
    for lead in sorted({scan.lead for scan in schedule.grid_scans}):
        scans = [scan.scan for scan in schedule.grid_scans if scan.lead == lead]
        names = _listed(list(dict.fromkeys(scop.statements[placed[name].value].name for name in scans)))
        ahead = f", which are left {lead} blocks ahead" if lead else ""
        yield (
            f"blocks begin in order, and take the totals of {names} from all in front{ahead}: those hold earlier "
            "elements alone and wait for no later block; which of them a thread merges in which order is fixed"
        )


def _staged(kernel: KernelView, view: StatementView, box: SharedBox) -> str:
    size = " x ".join(map(str, box.extents))
    readers = _readers(kernel, view)
    apart = " x ".join(map(str, box.pitch[:-1]))
    copied = (
        f"; it is copied to shared memory in aligned vectors of {box.copied}, and rows lie {apart} elements apart "
        "there: as in memory, but for whole vectors"
    )
    packed = "; its elements lie there as in memory, and those side by side are put and got in words"
    wants = f"{_listed(readers)} needs" if readers else "it stores"
    return (
        f"{view.name} lives in shared memory: each block writes a box of {size}, a barrier follows, "
        f"and all that {wants} lies in it{copied if box.copied else packed if box.packed else ''}"
    )


def _in_two_parts(kernel: KernelView, view: StatementView) -> str:
    cells = kernel.schedule.cells
    assert cells is not None
    count = kernel.schedule.digit(cells.slot).count
    pieces = f"; what is loaded later comes for {cells.piece} of {count} at a time" if cells.piece else ""
    return (
        f"{count - cells.first} of {count} parts of {view.name} wait in shared memory while threads combine, in cells "
        f"of the thread that needs them{pieces}"
    )


def _windows(kernel: KernelView, view: StatementView) -> list[tuple[int, ...]]:
    """The extents of the windows of registers that each thread keeps of a value."""
    schedule = kernel.schedule
    slots = {d.name: d.count for d in schedule.of_kind("slot")}
    found: dict[str, tuple[int, ...]] = {}
    for taker in (p for p in schedule.placed if p.role == "take" and p.value == view.value):
        index = window_index(schedule.by_name()[taker.providers[0]], taker, slots)
        found[taker.providers[0]] = tuple(prod([slots[name] for name in along]) for along, _ in index)
    return list(found.values())


def _in_windows(kernel: KernelView, view: StatementView, windows: list[tuple[int, ...]]) -> str:
    does, readers = "loads" if view.is_load else "computes", _readers(kernel, view)
    sizes = _listed([" x ".join(map(str, extents)) for extents in dict.fromkeys(windows)])
    what = f"a window of {sizes}" if len(windows) == 1 else f"{len(windows)} windows, of {sizes},"
    verb = "needs" if len(readers) == 1 else "need"
    return f"each thread {does} {what} of {view.name} and takes from it what {_listed(readers)} {verb}"


def _in_registers(kernel: KernelView, view: StatementView, readers: list[str]) -> str:
    what = _listed(readers)
    verb = "needs" if len(readers) == 1 else "need"
    match view.combine:
        case "thread":
            text = f"each thread accumulates {view.name} whole, and {what} {verb} it in that thread"
        case "warp" | "block" | "cluster" | "grid":
            text = f"the partial results of {view.name} meet across the {view.combine}, so that {what} {verb} no other"
        case _:
            text = f"{what} {verb} {view.name} in the thread and register that hold it"
    if view.copies > 1:
        text += f"; it is computed at {view.copies} places instead of being exchanged"
    passes = len(set(view.times))
    if passes > 1:
        loops = sorted({loop for time in view.times for loop, _ in time})
        text += f"; it is computed again in {passes} passes of the loop over {', '.join(loops)}"
    return text


def _readers(kernel: KernelView, view: StatementView) -> list[str]:
    """Statements of the kernel that read the value, in order."""
    scop = kernel.scop
    found = dict.fromkeys(scop.statements[v].name for v in kernel.schedule.body if view.value in scop.operands(v))
    return list(found)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def homes(kernel: KernelView) -> dict[Scope, list[str]]:
    """The values of a kernel by scope, in canonical order."""
    found: dict[Scope, list[str]] = {}
    for view in kernel.statements:
        found.setdefault(view.scope, []).append(view.name)
    return found
