"""Bad calls, bad steering, bad environments, missing devices: what a user can do wrong outside of the traced function.

Errors of tracing itself are in tests/frontend/errors.txt.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import polyfuse as pf
from polyfuse.options import read_environment
from polyfuse.run.arrays import Device
from polyfuse.target import named

X = np.ones((4, 6), np.float32)
Y = np.ones(6, np.float32)
SPEC = pf.spec("f32[N, 6]")
Case = Callable[[], Any]


def add(x, y):
    return x + y


def softmax(x):
    m = x.max(axis=1, keepdims=True)
    d = x - m
    e = np.exp(d)
    s = e.sum(axis=1, keepdims=True)
    y = e / s
    return y


def scaled(x, factor, options):
    return x * factor


def both(x):
    return x + 1, x * 2


def matrix() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return pf.jit(add)(np.asmatrix(X), Y)


def rows(x, at):
    return x[at]


def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Case:
    return lambda: pf.jit(function, **options)(*arguments)


def keywords(function: Callable[..., Any], *arguments: Any, **named: Any) -> Case:
    return lambda: pf.jit(function)(*arguments, **named)


def plan(function: Callable[..., Any], *arguments: Any, **options: Any) -> Case:
    return lambda: pf.jit(function).plan(*arguments, **options)


def environment(**variables: str) -> Case:
    return lambda: read_environment(variables)


def read_only(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


def compiled(*arguments: Any) -> Case:
    """A plan compiled for X, called with something else."""
    return lambda: pf.jit(softmax).compile(X)(*arguments)


def beyond_32_bits() -> None:
    """2 GB that are never touched."""
    ready = pf.jit(lambda x: x + 1).compile(pf.spec("i8[N~65535, M~32000]"), target="cpu")
    ready(np.empty((65536, 32768), np.int8))


def schedule(text: str) -> Case:
    return lambda: pf.parse_schedule(text, pf.jit(softmax), SPEC)


def status(code: int, name_of: str, words: str, doing: str) -> Case:
    """What a status of the driver becomes, without a driver."""

    class Status(int):
        name = f"CUDA_ERROR_{name_of}"

    class Api:
        @staticmethod
        def cuGetErrorString(status: Any) -> tuple[int, bytes]:
            return 0, words.encode()

    def fail() -> None:
        from polyfuse.backends.numba_cuda import driver

        real, driver.driver = driver.driver, Api  # type: ignore[assignment]
        try:
            driver.check((Status(code),), doing)
        finally:
            driver.driver = real

    return fail


def cuda_without_driver() -> None:
    from polyfuse.face.joined import backend

    backend("numba_cuda")


MASKED = np.ma.masked_array(X, X > 2)
STRUCTURED = np.zeros(3, [("a", "f4"), ("b", "i4")])
OVERLAP = np.zeros(100, np.float32)
CALLS: Mapping[str, Case] = {
    "missing argument": call(add, X),
    "one argument too many": call(add, X, Y, Y),
    "unknown keyword": keywords(add, X, Y, axis=1),
    "argument twice": keywords(add, X, Y, x=X),
    "spec in a call": call(add, SPEC, Y),
    "complex array": call(add, X.astype(np.complex64), Y),
    "array of objects": call(add, np.array([{}, None]), Y),
    "structured array": call(add, STRUCTURED, Y),
    "array of dates": call(add, np.array(["2026-01-01"], "M8[D]"), Y),
    "array of text": call(add, np.array(["a", "b"]), Y),
    "big-endian": call(add, X.astype(">f4"), Y),
    "masked array": call(add, MASKED, Y),
    "matrix": matrix,
    "a set": call(add, {1, 2}, Y),
    "an object": call(scaled, X, object(), None),
    "object in a container": call(scaled, X, 2.0, {"k": [1, object()]}),
    "complex number": call(scaled, X, 1j, None),
    "number beyond 64 bits": call(scaled, X, 1 << 70, None),
    "static that cannot be hashed": call(scaled, X, 2.0, [1], static="options"),
    "shapes that do not broadcast": call(add, X, np.ones(5, np.float32)),
    "ranks that do not fit": call(softmax, Y),
    "index out of bounds": call(rows, X, np.array([0, 4])),
    "index by floats": call(rows, X, np.array([0.0, 1.0])),
    "empty maximum": call(softmax, np.ones((3, 0), np.float32)),
    "unsigned number beyond int64": call(scaled, X, 1 << 63, None),
    "a function of NumPy's": lambda: pf.jit(np.add)(X, Y),
    "a part of a function of NumPy's": lambda: pf.jit(functools.partial(np.sum, axis=0))(X),
    "no function": lambda: pf.jit(3)(X),  # type: ignore[call-overload]
}
RESULTS: Mapping[str, Case] = {
    "out of another shape": keywords(add, X, Y, out=np.empty((4, 5), np.float32)),
    "out of another dtype": keywords(add, X, Y, out=np.empty((4, 6))),
    "out of another rank": keywords(add, X, Y, out=np.empty(24, np.float32)),
    "out is read-only": keywords(add, X, Y, out=read_only(np.empty((4, 6), np.float32))),
    "out is a list of numbers": keywords(add, X, Y, out=[1, 2]),
    "out is no array": keywords(add, X, Y, out=3.0),
    "out is a broadcast view": keywords(
        add, X, Y, out=np.lib.stride_tricks.as_strided(np.empty(6, np.float32), (4, 6), (0, 4))
    ),
    "out whose rows overlap": keywords(
        add, X, Y, out=np.lib.stride_tricks.as_strided(np.empty(16, np.float32), (4, 6), (8, 4))
    ),
    "too few arrays in out": keywords(both, X, out=(np.empty((4, 6), np.float32),)),
    "arrays in out that overlap": keywords(
        both, X, out=(OVERLAP[:24].reshape(4, 6), OVERLAP[8:32].reshape(4, 6))
    ),
    "donated name": call(add, X, Y, donate="z"),
    "donated position": call(add, X, Y, donate=2),
    "static name": call(add, X, Y, static="z"),
}
PLANS: Mapping[str, Case] = {
    "spec without a dtype": lambda: pf.spec("[N, 4]"),
    "spec that does not end": lambda: pf.spec("f32[N,"),
    "spec of an unknown dtype": lambda: pf.spec("f31[N]"),
    "spec of a negative size": lambda: pf.spec("f32[-3]"),
    "spec of a product": lambda: pf.spec("f32[N*M]"),
    "text in place of a spec": plan(add, X, "f32[6]"),
    "compiled plan, one column": compiled(np.ones((4, 1), np.float32)),
    "compiled plan, too large for its 32-bit indices": beyond_32_bits,
    "compiled plan, other dtype": compiled(X.astype(np.float64)),
    "compiled plan, other rank": compiled(Y),
    "compiled plan, the CPU's for the GPU": lambda: pf.jit(softmax).compile(SPEC, target="cpu")(3),
    "compiled plan, a number": compiled(2.0),
    "plan without arguments": plan(softmax),
    "unknown kernel of a plan": lambda: pf.jit(softmax).plan(SPEC).why_not("e", "q"),
    "unknown kernel of a plan, a list": lambda: pf.jit(softmax).plan(SPEC).why_not(["e"], "y"),
    "spec that is no text": lambda: pf.spec(4096),
    "comparison of a text": lambda: pf.compare(pf.jit(softmax).plan(SPEC), "softmax"),
    "measured with a bare array": lambda: pf.compare(*2 * [pf.jit(softmax).plan(SPEC)], measure=X),
    "custom kernel that is a text": lambda: pf.custom("kernel", writes=add),
    "custom kernel of one operand": lambda: pf.custom(add, writes=add, reads="x"),
    "schedule with a tile of no size": schedule(
        "kernel a pointwise unroll=0\n  m   global\n  d\n  e\n  s\n  y   global"
    ),
    "schedule for a function that is not jitted": lambda: pf.parse_schedule("", softmax, SPEC),
    "schedule that is empty": schedule(""),
    "schedule without a kernel": schedule("m = max(x)   register"),
    "schedule with a bad header": schedule("kernel\n  m   global"),
    "schedule of an unknown strategy": schedule("kernel a spirals\n  m\n  d\n  e\n  s\n  y   global"),
    "schedule of an unknown value": schedule("kernel a rows\n  m\n  q   global"),
    "schedule that computes something else": schedule("kernel a rows\n  m = min(x)\n  d\n  e\n  s\n  y   global"),
    "schedule that leaves values out": schedule("kernel a rows\n  m   global"),
    "schedule of a wrong scope": schedule("kernel a rows\n  m   shared\n  d\n  e\n  s\n  y   global"),
    "schedule with a bad parameter": schedule("kernel a rows block 7\n  m\n  d\n  e\n  s\n  y   global"),
}
OPTIONS: Mapping[str, Case] = {
    "unknown option": call(add, X, Y, fused=True),
    "fuse": call(add, X, Y, fuse="some"),
    "round": call(add, X, Y, round="up"),
    "bounds": call(add, X, Y, bounds="wrap"),
    "fastmath on the CPU": call(add, X, Y, fastmath=True),
    "fastmath of a strange kind": call(add, X, Y, fastmath="very"),
    "contract of a strange kind": call(add, X, Y, contract=3),
    "max_fusion_size": call(add, X, Y, max_fusion_size=-1),
    "max_registers": call(add, X, Y, max_registers="many"),
    "planning_seconds": call(add, X, Y, planning_seconds=0),
    "planning_seconds of a strange kind": call(add, X, Y, planning_seconds="long"),
    "unknown target": call(add, X, Y, target="sm_42"),
    "target of a strange kind": call(add, X, Y, target=90),
    "unknown back end": call(add, X, Y, backend="fortran"),
    "unknown back end of a plan": plan(softmax, SPEC, backend=["numba_cpu"]),
    "target that is a list": plan(softmax, SPEC, target=["h200"]),
    "donated by a truth value": call(add, X, Y, donate=True),
    "bounds that are an array": call(add, X, Y, bounds=np.arange(2)),
    "tiles that are an array": plan(softmax, SPEC, tiles=np.arange(2)),
    "back end of another target": call(add, X, Y, target="cpu", backend="numba_cuda"),
    "together, unknown value": plan(softmax, SPEC, together=("m", "q")),
    "together, library call": plan(lambda x: np.sort(x) + 1, pf.spec("f32[N, 40]"), together=("sort", "add")),
    "together of a strange kind": plan(softmax, SPEC, together=3),
    "apart, unknown value": plan(softmax, SPEC, apart=("m", "q")),
    "tiles of an unknown value": plan(softmax, SPEC, tiles={"q": {"threads": 64}}),
    "tiles of an unknown parameter": plan(softmax, SPEC, tiles={"m": {"colour": 3}}),
    "tiles of a strange kind": plan(softmax, SPEC, tiles={"m": 3}),
    "tiles that are text": plan(softmax, SPEC, tiles={"m": {"threads": "many"}}),
    "tiles of no size": plan(softmax, SPEC, tiles={"m": {"threads": 0}}),
    "tiles of a negative size": plan(softmax, SPEC, tiles={"m": {"unroll": -1}}),
    "more threads than a block has": plan(softmax, SPEC, tiles={"m": {"threads": 1 << 20}}, target="h200"),
    "batch_invariant and fastmath": plan(softmax, SPEC, batch_invariant=True, fastmath=True, target="h200"),
    "batch_invariant and a library": plan(lambda x: np.linalg.inv(x) + 1, pf.spec("f32[N, N]"), batch_invariant=True),
    "batch_invariant and tiles": plan(softmax, SPEC, batch_invariant=True, tiles={"m": {"lanes": 64}}, target="h200"),
    "unknown strategy": plan(softmax, SPEC, strategies={"m": "spirals"}),
    "strategy that proposes nothing": plan(softmax, SPEC, strategies={"m": "contraction"}),
    "strategies of a strange kind": plan(softmax, SPEC, strategies=("m",)),
}
MACHINE: Mapping[str, Case] = {
    "POLYFUSE_LOG": environment(POLYFUSE_LOG="fusion,everything"),
    "POLYFUSE_BACKEND": environment(POLYFUSE_BACKEND="cuda"),
    "POLYFUSE_VERIFY": environment(POLYFUSE_VERIFY="yes"),
    "POLYFUSE_TUNE": environment(POLYFUSE_TUNE="2"),
    "arrays on another device than the back end's": call(add, X, Y, target="h200", backend="numba_cuda"),
    "donated by a float": call(add, X, Y, donate=(1.5,)),
    "target that the machine lacks": call(add, X, Y, target="sm_90"),
    "no device of that number": lambda: named(str(Device("cuda", 7))),
    "out of device memory": status(2, "OUT_OF_MEMORY", "out of memory", "allocating a workspace of 4096 bytes"),
    "driver older than the toolkit": status(
        222, "UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain.", "loading f"
    ),
    "no GPU in the machine": status(100, "NO_DEVICE", "no CUDA-capable device is detected", "counting devices"),
    "a kernel that failed": status(
        700, "ILLEGAL_ADDRESS", "an illegal memory access was encountered", "waiting for device 0"
    ),
    "no CUDA back end": cuda_without_driver,
}
WITHOUT_CUDA = frozenset(
    ("arrays on another device than the back end's", "target that the machine lacks", "no CUDA back end")
)
"""Cases of a machine where the CUDA extra is not installed."""
CASES: Mapping[str, Case] = {**CALLS, **RESULTS, **PLANS, **OPTIONS, **MACHINE}
