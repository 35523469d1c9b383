"""What a steady call on the CUDA path executes: counted, because times on shared machines tell little."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.calls import chain, nested, total, unfused
from benchmarks.standin import standin_jit

torch = pytest.importorskip("torch")


def python_functions(call: Callable[[], object]) -> list[str]:
    """The names of the Python functions that one call runs, its own not among them."""
    for _ in range(4):
        call()
    names: list[str] = []

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            names.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return names[1:]


TOLD = ["_written", "increment_version"]  # torch, of tensors of the caller's that are written


def test_a_call_is_recognised_and_launched_by_two_functions() -> None:
    f, x, y = standin_jit(chain), torch.ones(8, 8), torch.ones(8, 8)
    assert python_functions(lambda: f(x, y)) == ["__call__", "call", "launch"]
    assert python_functions(lambda: f(x, y, out=torch.empty(8, 8))) == ["__call__", "call", "launch", *TOLD]
    assert python_functions(f.bind(x, y)) == ["run", "launch", *TOLD]


def test_more_and_nested_arguments_run_no_more_functions() -> None:
    several, deep = standin_jit(total), standin_jit(nested)
    arrays = [torch.ones(8, 8) for _ in range(64)]
    tree = {"a": arrays[0], "b": {"c": arrays[1], "d": [arrays[2]]}}
    assert python_functions(lambda: several(*arrays)) == ["__call__", "call", "launch"]
    assert python_functions(lambda: deep(tree)) == ["__call__", "call", "launch"]


def test_one_function_more_per_kernel() -> None:
    f, x = standin_jit(unfused, fuse=False), torch.ones(8, 8)
    kernels = len(f.plan(x).launches)
    assert kernels > 3
    assert python_functions(lambda: f(x)) == ["__call__", "call", *["launch"] * kernels]
    assert python_functions(f.bind(x)) == ["run", *["launch"] * kernels, *TOLD]
