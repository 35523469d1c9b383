"""Options of a jitted function and the environment variables that mirror them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import Any, Literal

from polyfuse.errors import OptionError
from polyfuse.target import named

Fuse = Literal["none", "pointwise", "all"]
BACKENDS = ("numba_cuda", "numba_cpu", "interpreter")
BACKENDS_ADVICE = f"use {', '.join(BACKENDS[:-1])} or {BACKENDS[-1]}"


@dataclass(frozen=True, slots=True)
class Options:
    """Everything that changes what is planned or compiled; part of every cache key.

    fuse: ``True`` (whatever pays), ``"pointwise"`` (elementwise chains only) or ``False`` (one kernel per statement).
    target: name of a built-in target (``sm_90``, ``sm_80``, ``h200``, ``cpu`` ...) or None for the device of the
    arguments.  backend: ``numba_cuda``, ``numba_cpu`` or ``interpreter``; None follows the target.  fastmath: allow
    approximations beyond IEEE (CUDA targets only).  contract: allow fused multiply-add.  round: 16-bit floats compute
    in float32 and round where they are stored (``store``), or behind every operation, which gives the bits of the
    program without fusion (``every-op``).  donate: names or positions of parameters
    whose arrays the function may write, and whose memory results and intermediates may take.  together / apart: groups
    of value names that the user wants in one kernel, or never in one.  max_fusion_size: statements per kernel.
    max_registers: per thread.  tiles: statement name -> tile sizes.  strategies: statement name -> strategy name.
    bounds: what becomes of data indices that are not proved to be in bounds (docs/calls.md).  verify: check every
    kernel against the rules of `polyfuse.verify` while planning.  autotune: the first call measures the planner's next
    best plans for some seconds and keeps the fastest, on disk too (`polyfuse.run.tuning`).

    batch_invariant: a row's results have the same bits whatever the number of rows (docs/trust.md): every reduction and
    scan is associated by what it runs over alone, nothing is contracted, 16-bit floats are rounded behind every
    operation, and no library is called for products of matrices.

    planning_seconds: of a typical core that the search for what to fuse may take (None: grows with the program).  It is
    work that is counted, never a clock: the plan is the same on every machine.  What does not fit in is fused less, and
    said (docs/schedules.md).

    library: contractions that the array library of the arguments runs faster are calls of it (a plan for specs knows of
    none; the name of a library stands for its arrays).

    atomics: blocks may merge their shares of a reduction into the result as they come, so that two runs need not give
    the same bits (docs/trust.md); the planner does it where it predicts a gain, on a GPU only.
    """

    fuse: Fuse = "all"
    target: str | None = None
    backend: str | None = None
    fastmath: bool = False
    contract: bool = True
    round: Literal["store", "every-op"] = "store"
    atomics: bool = False
    donate: tuple[int | str, ...] = ()
    static: tuple[str, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    apart: tuple[tuple[str, ...], ...] = ()
    max_fusion_size: int = 0
    max_registers: int = 0
    planning_seconds: float | None = None
    tiles: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()
    strategies: tuple[tuple[str, str], ...] = ()
    autotune: bool = False
    library: bool | str = True
    bounds: Literal["raise", "clip", "assume"] = "raise"
    batch_invariant: bool = False
    verify: bool = False

    def updated(self, changes: Mapping[str, Any]) -> Options:
        """A copy with `changes` applied, accepting the user's spellings.  Raises OptionError for unknown names and
        values, and for options that exclude each other."""
        known = {f.name for f in fields(self)}
        unknown = sorted(set(changes) - known)
        if unknown:
            raise OptionError(f"unknown option {unknown[0]!r}", advice=f"known options: {', '.join(sorted(known))}")
        changed = replace(self, **{name: _normal(name, value) for name, value in changes.items()})
        for other in ("fastmath", "atomics"):
            if changed.batch_invariant and getattr(changed, other):
                problem = f"batch_invariant=True and {other}=True exclude each other"
                raise OptionError(problem, advice="Leave one of them out.")
        return changed


def is_donated(path: str, names: Iterable[int | str]) -> bool:
    """Whether the argument at `path` was given away: itself, or the parameter that holds it."""
    return any(path == n or (isinstance(n, str) and path.startswith((f"{n}[", f"{n}."))) for n in names)


def _normal(name: str, value: Any) -> Any:
    """The stored form of one option value: hashable, one spelling."""
    match name:
        case "fuse":
            table = {True: "all", False: "none", "all": "all", "none": "none", "pointwise": "pointwise"}
            if not isinstance(value, (bool, str)) or value not in table:
                raise OptionError(f"fuse={value!r}", advice='use True, False or "pointwise"')
            return table[value]
        case "together" | "apart":
            return _groups(name, value)
        case "donate" | "static":
            names = (value,) if isinstance(value, (Integral, str)) else value
            is_sequence = isinstance(names, (tuple, list, set, frozenset))
            if not is_sequence or not all(isinstance(n, str) or _is_whole(n) for n in names):
                raise OptionError(f"{name}={value!r}", advice='name parameters: "x", or ("x", "y")')
            return tuple([n if isinstance(n, str) else int(n) for n in names])
        case "tiles":
            return _tiles(value)
        case "strategies":
            return _strategies(value)
        case "round":
            return _one_of(name, value, ("store", "every-op"))
        case "bounds":
            return _one_of(name, value, ("raise", "clip", "assume"))
        case "atomics" | "fastmath" | "contract" | "verify" | "autotune" | "batch_invariant":
            return _one_of(name, value, (False, True))
        case "library":
            return _one_of(name, value, (False, True, "numpy", "torch", "cupy"))
        case "max_fusion_size" | "max_registers":
            if not _is_whole(value) or value < 0:
                raise OptionError(f"{name}={value!r}", advice="use a positive integer, or 0 for no limit")
            return int(value)
        case "backend":
            if value is not None and not (isinstance(value, str) and value in BACKENDS):
                raise OptionError(f"unknown back end {value!r}", advice=BACKENDS_ADVICE)
            return value
        case "planning_seconds":
            seconds = None if value is None else _number(value)
            if seconds is not None and not 0 < seconds < math.inf:
                raise OptionError(f"{name}={value!r}", advice="use a positive number, or None for the default")
            return seconds
        case "target":
            if value is not None:
                named(value)
            return value
        case _:
            return value


def _is_whole(value: Any) -> bool:
    """Whether a value is a whole number, of NumPy's too; True is no number of registers."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _number(value: Any) -> float:
    """A real number as a float, of NumPy's too; NaN for anything else."""
    try:
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.inf


def _groups(name: str, value: Any) -> tuple[tuple[str, ...], ...]:
    """One group of names, or several."""
    sequences = (tuple, list, set, frozenset)
    groups = [value] if isinstance(value, sequences) and value and isinstance(next(iter(value)), str) else value
    if not isinstance(groups, sequences) or not all(
        isinstance(group, sequences) and all(isinstance(n, str) for n in group) for group in groups
    ):
        raise OptionError(f"{name}={value!r}", advice=f'name values: {name}=("a", "b"), or several such groups')
    return tuple(tuple(group) for group in groups)


def _pairs(value: Any) -> list[tuple[Any, Any]] | None:
    """The items of a mapping, also of one that is stored as pairs."""
    if isinstance(value, Mapping):
        return list(value.items())
    is_stored = isinstance(value, (tuple, list)) and all(isinstance(v, tuple) and len(v) == 2 for v in value)
    return list(value) if is_stored else None


def _tiles(value: Any) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
    found, pairs = [], _pairs(() if value is None else value)
    for name, sizes in [(None, None)] if pairs is None else pairs:
        inner = _pairs(sizes)
        if not isinstance(name, str) or inner is None or not all(_is_whole(n) for _, n in inner):
            advice = 'name a value, its parameters and whole numbers: tiles={"m": {"threads": 256}}'
            raise OptionError(f"tiles={value!r}", advice=advice)
        found.append((name, tuple(sorted((parameter, int(size)) for parameter, size in inner))))
    return tuple(sorted(found))


def _strategies(value: Any) -> tuple[tuple[str, str], ...]:
    pairs = _pairs(value)
    if pairs is None or not all(part and isinstance(part, str) for pair in pairs for part in pair):
        raise OptionError(f"strategies={value!r}", advice='name a value and its strategy: strategies={"m": "rows"}')
    return tuple(sorted(pairs))


def _one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    if not any(value is a or (isinstance(a, str) and isinstance(value, str) and value == a) for a in allowed):
        raise OptionError(f"{name}={value!r}", advice=f"use one of {', '.join(map(repr, allowed))}")
    return value


@dataclass(frozen=True, slots=True)
class Environment:
    """The six variables: POLYFUSE_LOG (comma list of fusion, schedule, code, tune), _DUMP (directory), _VERIFY (0 or
    1), _CACHE (directory, or ``off``), _BACKEND (name), _TUNE (0 or 1)."""

    log: tuple[str, ...] = ()
    dump: str = ""
    verify: bool = False
    cache: str = ""
    backend: str | None = None
    tune: bool = False


_LOGS = ("fusion", "schedule", "code", "tune")


def read_environment(variables: Mapping[str, str] = os.environ) -> Environment:
    """Parse the environment.  Raises OptionError naming the variable and what it accepts."""
    log = tuple(part.strip() for part in variables.get("POLYFUSE_LOG", "").split(",") if part.strip())
    for part in log:
        if part not in _LOGS:
            raise OptionError(f"POLYFUSE_LOG={part!r}", advice=f"use a comma list of {', '.join(_LOGS)}")
    backend = variables.get("POLYFUSE_BACKEND") or None
    if backend is not None and backend not in BACKENDS:
        raise OptionError(f"POLYFUSE_BACKEND={backend!r}", advice=f"use one of {', '.join(BACKENDS)}")
    return Environment(
        log=log,
        dump=variables.get("POLYFUSE_DUMP", ""),
        verify=_flag(variables, "POLYFUSE_VERIFY"),
        cache=variables.get("POLYFUSE_CACHE", ""),
        backend=backend,
        tune=_flag(variables, "POLYFUSE_TUNE"),
    )


def _flag(variables: Mapping[str, str], name: str) -> bool:
    value = variables.get(name, "0")
    if value not in ("", "0", "1"):
        raise OptionError(f"{name}={value!r}", advice="use 0 or 1")
    return value == "1"
