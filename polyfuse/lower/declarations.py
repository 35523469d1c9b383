"""The parameters of a kernel: arrays, what its blocks leave each other, sizes and scalar arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from polyfuse import kernel as ir
from polyfuse.affine import Affine, names_of
from polyfuse.bindings import FAULT, Guard, Layout
from polyfuse.dtypes import DType, i32
from polyfuse.lower.environment import ArrayUse, Environment, counter_name, summed_digit
from polyfuse.lower.inspect import affine_names, flatten, value_references
from polyfuse.schedule import Finish, KernelSchedule, SharedBox, election
from polyfuse.scop import Scop, Statement
from polyfuse.terms import references


@dataclass(frozen=True, slots=True)
class ScratchUse:
    """An array that only this kernel touches; `zeroed`: it holds zeros before and after."""

    name: str
    dtype: DType
    shape: tuple[Affine, ...]
    zeroed: bool = False


def array_uses(
    scop: Scop, schedule: KernelSchedule, layouts: Mapping[int, Layout]
) -> dict[tuple[int, int, bool], ArrayUse]:
    """By (value, component, loaded)."""
    moves = [p for p in schedule.placed if p.role in ("load", "store", "atomic")]
    found: dict[tuple[int, int, bool], ArrayUse] = {}
    known = _known_sizes(schedule)
    names: set[str] = set()  # component 1 of `a` and component 0 of `a_1` would both be a_1
    for move in sorted(moves, key=lambda p: (p.role != "load", p.value, p.component)):
        key = (move.value, move.component, move.role == "load")
        if key in found:
            continue
        statement = scop.statements[move.value]
        name = statement.name if not move.component else f"{statement.name}_{move.component}"
        name = f"{name}_in" if move.role == "load" else f"{name}_out"
        while name in names:
            name = f"{name}_"
        names.add(name)
        shape = tuple([extent.substitute(known) for extent in scop.shape(move.value)])
        dtype = scop.dtype(move.value, move.component)
        layout = layouts.get(move.value, Layout())
        found[key] = ArrayUse(name, move.value, move.component, shape, dtype, layout, move.role == "load")
    return found


def _known_sizes(schedule: KernelSchedule) -> dict[str, int]:
    """Sizes that the guards leave one value: what a thread takes whole lies at distances known to the compiler then."""
    least, most = dict[str, int](), dict[str, int]()
    for guard in schedule.guards:
        if isinstance(guard, Guard) and not (guard.modulus or guard.advisory) and len(guard.expression.terms) == 1:
            ((name, factor),) = guard.expression.terms
            if isinstance(name, str) and abs(factor) == 1:
                bounds = least if factor == 1 else most
                bounds[name] = -factor * guard.expression.constant
    return {name: value for name, value in least.items() if most.get(name) == value}


def share_uses(scop: Scop, schedule: KernelSchedule) -> dict[tuple[int, int], ArrayUse]:
    """Per component of a reduction across blocks: the number of the block, then the index of the result."""
    found: dict[tuple[int, int], ArrayUse] = {}
    for placed in schedule.placed:
        if placed.role != "partial":
            continue
        value, component = placed.value, placed.component
        name = f"{scop.statements[value].name}_shares" + (f"_{component}" if component else "")
        shape = (schedule.digit(summed_digit(schedule, placed)).extent, *scop.shape(value))
        dtype = scop.dtype(value, component).compute
        found[value, component] = ArrayUse(name, value, component, shape, dtype, Layout(), False)
    return found


def scalar_arguments(scop: Scop, schedule: KernelSchedule) -> dict[str, DType]:
    """Each scalar argument that the kernel uses, in the widest dtype that it is used in: narrower uses convert."""
    found: dict[str, DType] = {}
    for value in schedule.body:
        statement = scop.statements[value]
        assert isinstance(statement, Statement)
        for ref in (r for body in statement.body for r in references(body) if r.name.startswith("s")):
            dtype = ref.dtype.compute
            known = found.get(ref.name, dtype)
            found[ref.name] = max(known, dtype, key=lambda d: (not d.is_float, d.itemsize))
    return found


def scratch_uses(env: Environment) -> tuple[ScratchUse, ...]:
    found = [ScratchUse(use.name, use.dtype, use.shape) for use in env.shares.values()]
    for item in env.schedule.order:
        if isinstance(item, Finish):
            _, counts = election(env.schedule.digits, item.digit)
            found.append(ScratchUse(counter_name(item.digit), i32, counts, zeroed=True))
    return tuple(found)


def parameters(
    env: Environment, scratch: Sequence[ScratchUse], grid: tuple[Affine, ...], body: tuple[ir.Op, ...]
) -> tuple[ir.Parameter, ...]:
    """Arrays, what blocks leave each other, the flag of faults, then the sizes and the scalars that the body names."""
    arrays, sizes = array_parameters(env, scratch)
    decoded = grid if env.schedule.grid_scans else grid[:-1]  # several axes are decoded in the kernel; turns wrap
    wanted = affine_names(body) | names_of(decoded)
    products = {name for name, _ in env.scop.program.derived}  # which the launch evaluates, with grid and shapes
    ops = list(flatten(body))
    cut = {op.array for op in ops if isinstance(op, (ir.Load, ir.AsyncCopy)) and op.cut}
    cut |= {op.array for op in ops if isinstance(op, ir.Load) and op.across}  # they are read up to the array's end
    wanted |= names_of(n for a in arrays for n in a.shape if a.name in cut)
    wanted |= (names_of(grid) | names_of(n for a in arrays for n in a.shape)) & products
    if any(isinstance(op, ir.AtomicUpdate) and op.array == FAULT for op in ops):
        arrays.append(ir.ArrayParameter(FAULT, i32, (Affine.of(1),), readonly=False))
    sizes |= dict.fromkeys(sorted(n for n in wanted if not n.startswith("$")))
    used = dict.fromkeys(r.name for r in value_references(body) if r.name in env.scalars)
    scalars = [ir.ScalarParameter(name, env.scalars[name]) for name in used]
    return (*arrays, *(ir.SizeParameter(n) for n in sizes), *scalars)


def array_parameters(
    env: Environment, scratch: Sequence[ScratchUse]
) -> tuple[list[ir.ArrayParameter], dict[str, None]]:
    """The arrays, and the sizes that their addresses take."""
    found: list[ir.ArrayParameter] = []
    sizes: dict[str, None] = {}
    for use in env.arrays.values():
        strides: tuple[str | int, ...] | None = None
        if use.layout.strides is not None:
            strides = tuple(f"{use.name}_s{k}" if s is None else s for k, s in enumerate(use.layout.strides))
            sizes |= dict.fromkeys(s for s in strides if isinstance(s, str))
        else:
            sizes |= dict.fromkeys(n for extent in use.shape[1:] for n in sorted(extent.names()))
        last = env.schedule.evict_last and use.readonly
        own = ir.ArrayParameter(use.name, use.dtype, use.shape, strides, use.readonly, use.layout.alignment)
        found.append(replace(own, evicted_last=True) if last else own)
    for left in scratch:
        sizes |= dict.fromkeys(n for extent in left.shape[1:] for n in sorted(extent.names()))
        found.append(ir.ArrayParameter(left.name, left.dtype, left.shape, readonly=False))
    return found, sizes


def shared_buffer(scop: Scop, box: SharedBox) -> ir.SharedBuffer:
    return ir.SharedBuffer(f"{box.name}_tile", box.cells(scop.dtype(box.value)), box.shape, box.pitch)


def source_notes(scop: Scop, schedule: KernelSchedule) -> tuple[tuple[str, str], ...]:
    """The user's file and line of each value."""
    found = []
    for placed in schedule.placed:
        source = getattr(scop.statements[placed.value], "source", None)
        if placed.role == "compute" and source is not None:
            found.append((placed.name, f"{source.file.rsplit('/', 1)[-1]}:{source.line}"))
    return tuple(found)
