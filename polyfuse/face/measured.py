"""Measured times for ``pf.compare(before, after, measure=(x, w))``: the steps of a plan, each on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from polyfuse.errors import OptionError
from polyfuse.face.joined import services
from polyfuse.options import Environment
from polyfuse.plan import Plan
from polyfuse.run.ahead import Lowered
from polyfuse.run.arguments import Reading
from polyfuse.run.captures import Watch
from polyfuse.run.services import Launcher, Traced
from polyfuse.run.tuning import timed
from polyfuse.run.variants import Variant, Variants


def measured(arguments: Sequence[Any], plan: Plan) -> list[float]:
    """Seconds of every step of a plan, run again and again behind those before it.

    arguments: the arrays and numbers of a call, flat and in order, arrays that the function holds last.  Raises
    OptionError for a plan that writes its arguments, or has no work at these sizes; ArgumentError and StalePlanError
    for arguments that it is not for; DeviceError where its device is not there.
    """
    program = plan.program
    if program.writes or plan.reuses:
        raise OptionError(
            f"{program.name} writes its arguments, so that no step can be repeated",
            advice="Measure the plan without donate=.",
        )
    reading = Reading(accepts=lambda value: False)
    for argument in arguments:
        reading.add(argument)
    executable = _lowered(plan, tuple(reading.structure)).compile()
    record = executable.prepared(reading)
    wait = partial(executable.ready.backend.synchronize, record.device.ordinal)
    found: list[float] = []
    steps = tuple(_timed(step, wait, found) for step in record.steps)
    replace(record, steps=steps).run(reading.values, reading.leaves)
    launches = len(plan.steps)
    if len(found) < launches:
        raise OptionError(f"a kernel of {program.name} has nothing to do at these sizes", advice="Pass larger arrays.")
    return found[:launches]


def _lowered(plan: Plan, structure: tuple[Any, ...]) -> Lowered:
    """The plan as that of a function of its program's arguments, nested as in `structure`."""
    program = plan.program
    shapes = tuple(a.shape for a in program.arguments if not a.is_scalar)
    traced = Traced(program, shapes, len(program.outputs), "tuple", lambda outputs, sizes: tuple(outputs))
    floors = services(Environment(cache="off"))
    return Lowered(plan, Variant(traced, Watch()), structure, _unread, floors, Variants(floors))


def _unread(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Reading:
    raise OptionError("a plan that is measured is not called", advice="Call the jitted function.")


def _timed(step: Launcher, wait: Any, found: list[float]) -> Launcher:
    def run(values: list[Any], stream: int) -> None:
        found.append(timed(lambda: step(values, stream), wait))

    return run
