"""An emitted kernel with one fault planted in its text, for each tool that is to find it.

The kernel adds a transposed matrix through a tile in shared memory, behind one barrier.
"""

from __future__ import annotations

import math
import sys

import numpy as np

import polyfuse as pf
from polyfuse.backends.numba_cuda.assemble import assemble
from polyfuse.backends.numba_cuda.compile import CompiledKernel, compile_kernel
from polyfuse.backends.numba_cuda.driver import capability, current_context, driver
from polyfuse.backends.numba_cuda.driver import check as succeed
from polyfuse.backends.numba_cuda.launch import Launcher
from polyfuse.codegen.printer import print_kernel
from polyfuse.kernel import Kernel
from tests.schedules.strategies import plus_transposed

EDGE = 96
FAULTS = {
    "memcheck": ("store(add_out, at,", f"store(add_out, at + {EDGE * EDGE},"),  # behind the result
    "racecheck": ("    barrier()\n", ""),  # the tile is read while others write it
    "synccheck": ("    barrier()\n", "    if thread() < 200:\n        barrier()\n"),  # a warp comes in part
    "initcheck": ("load(x_in, at,", f"load(add_out, at + {EDGE * EDGE},"),  # memory that nothing wrote
}
"""What each tool is to find: a line of the kernel's text, and what it becomes."""


def emitted() -> Kernel:
    """The kernel as planned for the H200."""
    shape = pf.spec(f"f32[{EDGE}, {EDGE}]")
    plan = pf.jit(plus_transposed, strategies={"add": "tiles"}, target="h200").plan(shape, shape)
    (launch,) = plan.launches
    return launch.kernel


def faulty(tool: str, target: tuple[int, int]) -> CompiledKernel:
    """The kernel with the fault for `tool`, compiled; needs no GPU."""
    kernel = emitted()
    text, (right, wrong) = print_kernel(kernel), FAULTS[tool]
    assert text.count(right) == 1, f"the kernel has no line {right!r}:\n{text}"
    return compile_kernel(text.replace(right, wrong), kernel.name, kernel.parameters, kernel.threads, target)


def main(tool: str) -> None:
    """Launch it once.  The result has memory of its own for as many elements again, of which memcheck has none."""
    api, kernel = driver(), emitted()
    bytes_of_one = 4 * EDGE * EDGE
    with current_context():
        compiled = assemble(faulty(tool, capability()))
        x = np.ones((EDGE, EDGE), np.float32)
        places = []
        for parameter in kernel.parameters:
            room = bytes_of_one if tool == "memcheck" or not parameter.name.endswith("out") else 2 * bytes_of_one
            place = succeed(api.cuMemAlloc(room), "allocating")
            succeed(api.cuMemcpyHtoD(place, x.ctypes.data, bytes_of_one), "copying in")
            places.append(int(place))
        Launcher(compiled).launch((math.prod(e.evaluate({}) for e in kernel.grid),), places)
        print("launched", flush=True)
        api.cuCtxSynchronize()  # the fault itself may end the context


if __name__ == "__main__":
    main(sys.argv[1])
