"""Programs as users write them, and plans of them without data or a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polyfuse.bindings import Layout
from polyfuse.expr import Program
from polyfuse.frontends.numpy_like import spec, trace
from polyfuse.frontends.numpy_like.lifting import trace_of
from polyfuse.options import Options
from polyfuse.plan import Plan
from polyfuse.planning.planner import plan_program
from polyfuse.target import named


def program(function: Callable[..., Any], *specs: str) -> Program:
    return trace(function, [spec(s) for s in specs]).program


def plan(
    function: Callable[..., Any], *specs: str, target: str = "h200", effort: int | None = None, **options: Any
) -> Plan:
    """`effort`: rounds in which the search for kernels starts again; without any it takes a third of the time."""
    traced = program(function, *specs)
    layouts = tuple(Layout() for _ in traced.arguments)
    return plan_program(traced, named(target), Options().updated(options), layouts, effort=effort)


def both(function: Callable[..., Any], *specs: str, **options: Any) -> tuple[Plan, Plan]:
    """Unfused and fused."""
    return plan(function, *specs, fuse=False, **options), plan(function, *specs, **options)


def relu(x: Any) -> Any:
    """As a user's call of the library: its result is a value of the user's, what it makes inside is not."""
    return trace_of(x).call("relu", x)


def sigmoid(x: Any) -> Any:
    return trace_of(x).call("sigmoid", x)


def softmax(x):
    m = x.max(axis=-1, keepdims=True)
    d = x - m
    e = np.exp(d)
    s = e.sum(axis=-1, keepdims=True)
    y = e / s
    return y


def biased(x, bias):
    t = x * 2
    u = t + bias
    y = relu(u)
    return y


def gate(x, w, b):
    t = x * w
    u = t + b
    y = sigmoid(u)
    return y


def chain(x, y):
    return sigmoid(relu((x + y) * 2) - 1)


def rows_then_columns(x):
    r = x / x.sum(axis=1, keepdims=True)
    c = r.sum(axis=0)
    return c
