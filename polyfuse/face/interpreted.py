"""Run a plan of any target on NumPy arrays, kernel by kernel in the interpreter: slow, checked, without a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from polyfuse.backends.interpreter import run_kernel
from polyfuse.bindings import (
    FAULT,
    LAUNCHED,
    Binding,
    Buffer,
    FromArgument,
    FromBlocks,
    FromBuffer,
    FromOutput,
    FromProduct,
    FromSize,
    FromStride,
)
from polyfuse.expr import Input
from polyfuse.kernel import ArrayParameter, ScalarParameter
from polyfuse.library_calls import contraction
from polyfuse.plan import Launch, LibraryCall, Plan
from polyfuse.reference import bind_sizes
from polyfuse.run.libraries.numpy_arrays import NUMPY

Array = npt.NDArray[Any]


def run_plan(plan: Plan, arguments: Sequence[Any], *, seed: int | None = 0) -> list[Array]:
    """The outputs of a plan for its arguments, arrays and scalars in order; arguments that it writes are overwritten.

    `seed` shuffles the order of blocks that meet.  Raises KernelFault where a kernel breaks a rule of the machine, and
    IndexFault where a data index is out of bounds.
    """
    run = _Run(plan, arguments)
    for step in plan.steps:
        if isinstance(step, LibraryCall) and not step.launches:
            run.call(step)
            continue
        for launch in (step,) if isinstance(step, Launch) else step.launches:
            run.launch(launch, seed)
    run.check_indices()
    return run.finished()


class _Run:
    """The memory of one run."""

    def __init__(self, plan: Plan, arguments: Sequence[Any]) -> None:
        self.plan, self.arguments = plan, list(arguments)
        program = plan.program
        pairs = list(zip(program.arguments, arguments, strict=True))
        self.sizes = bind_sizes(program, [np.shape(value) for a, value in pairs if not a.is_scalar])
        self.outputs: list[Array] = [np.empty(self._shape(o.shape), o.dtype.numpy) for o in program.outputs]
        for output, argument in plan.reuses:
            self.outputs[output] = self.arguments[argument]
        self.buffers: dict[str, Array] = {}
        for b in sorted(plan.buffers, key=lambda b: b.first):
            self.buffers[b.name] = _memory(b, self.sizes) if b.within is None else self.value(b.within)
        self.written: set[int] = set()

    def _shape(self, shape: Sequence[Any]) -> tuple[int, ...]:
        return tuple(n.evaluate(self.sizes) for n in shape)

    def value(self, binding: Binding) -> Any:
        match binding:
            case FromArgument(position):
                return self.arguments[position]
            case FromOutput(position):
                return self.outputs[position]
            case FromBuffer(name):
                return self.buffers[name]
            case FromSize(expression):
                return expression.evaluate(self.sizes)
            case FromProduct(factors):
                return prod(f.evaluate(self.sizes) for f in factors)
            case FromBlocks():
                return binding.value(self.sizes)
            case FromStride(position, axis):
                array = self.arguments[position]
                return array.strides[axis] // array.itemsize

    def launch(self, step: Launch, seed: int | None) -> None:
        kernel = step.kernel
        pairs = zip(kernel.parameters, step.bindings, strict=True)
        stores = [b for p, b in pairs if isinstance(p, ArrayParameter) and not p.readonly]
        self.written |= {b.position for b in stores if isinstance(b, FromOutput)}
        if any(extent.evaluate(self._numbers(step)) == 0 for extent in kernel.grid):
            return
        arrays: dict[str, Array] = {}
        scalars: dict[str, Any] = {}
        numbers = self._numbers(step)
        for parameter, binding in zip(kernel.parameters, step.bindings, strict=True):
            if isinstance(parameter, ArrayParameter):
                array, shape = self.value(binding), tuple(n.evaluate(numbers) for n in parameter.shape)
                arrays[parameter.name] = array if array.shape == shape else _shaped(array, shape)
            elif isinstance(parameter, ScalarParameter):
                scalars[parameter.name] = self.value(binding)
        run_kernel(kernel, arrays, numbers, scalars, seed=seed)

    def _numbers(self, step: Launch) -> Mapping[str, int]:
        pairs = zip(step.kernel.parameters, step.bindings, strict=True)
        named = {p.name: self.value(b) for p, b in pairs if isinstance(b, LAUNCHED)}
        return {**self.sizes, **named}

    def call(self, step: LibraryCall) -> None:
        operands = [self.value(b) for b in step.operands]
        function, settings = step.call.function, dict(step.call.settings)
        targets = [self.value(b) for b in step.results]
        self.written |= {b.position for b in step.results if isinstance(b, FromOutput)}
        if step.call.name == contraction.NAME:
            NUMPY.product(settings["contraction"], self.sizes)(*operands, *targets)
            return
        if function and step.call.in_place:
            function(*operands, *targets, stream=0)
            return
        if step.call.in_place:
            NUMPY.call(step.call.name, [*operands, *targets], settings)
            return
        answer = function(*operands, **settings) if function else NUMPY.call(step.call.name, operands, settings)
        answers = answer if isinstance(answer, (tuple, list)) else (answer,)
        for target, result in zip(targets, answers, strict=True):
            target[...] = result

    def check_indices(self) -> None:
        """Raise IndexFault where a kernel met a data index out of bounds."""
        if self.plan.sites and (number := int(self.buffers[FAULT][0])):
            raise self.plan.sites[number - 1].fault(self.plan.program)

    def finished(self) -> list[Array]:
        """Outputs that no step writes are arguments or other outputs; then arguments are written back."""
        nodes = self.plan.program.outputs
        for position, node in enumerate(nodes):
            if position in self.written:
                continue
            if isinstance(node, Input):
                self.outputs[position][...] = self.arguments[node.position]
            else:
                twin = next(k for k in self.written if nodes[k] is node)
                self.outputs[position][...] = self.outputs[twin]
        for argument, output in self.plan.program.writes.items():
            if (output, argument) not in self.plan.reuses:
                self.arguments[argument][...] = self.outputs[output]
        return self.outputs


def _shaped(array: Array, shape: tuple[int, ...]) -> Array:
    """The same memory with another shape, which may leave out its end: rows that are no whole part."""
    return array.reshape(-1)[: prod(shape)].reshape(shape)


def _memory(buffer: Buffer, sizes: Mapping[str, int]) -> Array:
    """As a device gives it: zeros are promised for counters only."""
    memory = np.zeros(buffer.extents(sizes), buffer.dtype.numpy)
    if not buffer.zeroed and buffer.dtype.is_float:
        memory[...] = np.nan
    return memory
