"""The services of real calls: frontend, planner, back ends and disk cache of this package, on this machine."""

from __future__ import annotations

import functools
import importlib.util
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from polyfuse.bindings import Layout
from polyfuse.cache.location import cache_directory
from polyfuse.cache.store import DiskStore
from polyfuse.errors import DeviceError, OptionError
from polyfuse.expr import Program
from polyfuse.face.numpy_like import NumPyFrontend
from polyfuse.face.reproduce import write
from polyfuse.options import BACKENDS_ADVICE, Environment, Options
from polyfuse.plan import Launch, Plan
from polyfuse.run.arrays import Device
from polyfuse.run.garbage import rarely_collected
from polyfuse.run.services import Backend, PlanKey, Planner, Services, Store
from polyfuse.target import A100, CPU, GENERIC, H100, H200, Target


def services(environment: Environment) -> Services:
    """What jitted functions call.  `environment` says where the cache lies, and whether there is one."""
    store, reporter = _store(environment.cache), functools.partial(write, folder=environment.dump)
    told = Told(store, environment.dump, "fusion" not in environment.log) if store is not None else None
    return Services(NumPyFrontend(), planner(environment.dump), backend, target_of, told, reporter)


@dataclass(frozen=True, slots=True)
class Told:
    """A store whose plans are told as new ones are.  `reads`: False where decisions are asked for, which only planning
    tells."""

    store: Store
    folder: str
    reads: bool

    def load(self, key: PlanKey, sizes: Mapping[str, int]) -> tuple[Plan, tuple[bytes, ...]] | None:
        found = self.store.load(key, sizes) if self.reads else None
        if found is not None and (self.folder or any(map(_listens, ("schedule", "code")))):
            _tell(found[0], self.folder)
        return found

    def save(self, key: PlanKey, plan: Plan, objects: Sequence[bytes]) -> None:
        if self.reads:  # else it may be there
            self.store.save(key, plan, objects)


def _listens(name: str) -> bool:
    return logging.getLogger(f"polyfuse.{name}").isEnabledFor(logging.INFO)


def _tell(plan: Plan, folder: str) -> None:
    """Tell the loggers of a plan and, where a folder is named, write it there."""
    from polyfuse.explain.dump import dump_plan, log_plan  # a process that finds its plans on disk needs neither

    log_plan(plan)
    if folder:
        dump_plan(plan, Path(folder), _ptx if plan.target.kind == "cuda" and _has_cuda() else None)


def planner(folder: str) -> Planner:
    """The planner, with its plans told to the loggers and, where a folder is named, written there."""

    def plan(program: Program, target: Target, options: Options, layouts: tuple[Layout, ...]) -> Plan:
        from polyfuse.planning.planner import plan_program

        with rarely_collected():
            made = plan_program(program, target, options, layouts)
        _tell(made, folder)
        return made

    return plan


def _ptx(launch: Launch, plan: Plan) -> str:
    from polyfuse.face.numba_cuda import CudaBackend

    return CudaBackend().compile(launch, plan).kernel.ptx


def _has_cuda() -> bool:
    return importlib.util.find_spec("numba_cuda") is not None


@functools.cache
def _store(setting: str) -> Store | None:
    """One store for the process, so that a cache that fails is reported once."""
    path = cache_directory(setting)
    return DiskStore(path) if path is not None else None


@functools.cache
def backend(name: str) -> Backend:
    """The back end of that name.  Raises OptionError, or DeviceError where its packages are missing."""
    match name:
        case "numba_cpu":
            from polyfuse.face.numba_cpu import CpuBackend

            return CpuBackend()
        case "interpreter":
            from polyfuse.face.interpreter import InterpreterBackend

            return InterpreterBackend()
        case "numba_cuda":
            if not _has_cuda():
                raise DeviceError("the CUDA back end is not installed", advice="pip install polyfuse[cuda]")
            from polyfuse.face.numba_cuda import CudaBackend

            return CudaBackend()
    raise OptionError(f"unknown back end {name!r}", advice=BACKENDS_ADVICE)


@functools.cache
def target_of(device: Device | None) -> Target:
    """The machine model of a device; of None, for plans without arrays, the built-in H200."""
    if device is None:
        return H200
    if device.kind == "cpu":
        return CPU
    from polyfuse.face.numba_cuda import describe

    name, capability = describe(device.ordinal)
    for known in (H200, H100, A100):
        if known.name in name.lower():
            return known
    return next((t for t in (H100, A100) if t.capability == capability), GENERIC)
