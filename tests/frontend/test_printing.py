"""What a function prints appears once per trace, in whole lines, however often the function is run for it."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import TraceError


def test_lines_are_whole_and_come_once_per_trace(capsys: pytest.CaptureFixture[str]) -> None:
    def function(x: Any, k: float) -> Any:
        print("k =", k, "n =", x.shape[0])
        print(x, file=sys.stderr, end="!")
        return x * k

    jitted = pf.jit(function)
    for _ in range(3):
        jitted(np.ones(5), 2.5)
    assert capsys.readouterr() == ("k = 2.5 n = 5\n", "Tracer(f64[5])!")
    jitted(np.ones(6), 2.5)
    assert capsys.readouterr().out == "k = 2.5 n = 6\n"


def test_a_function_may_read_what_it_prints() -> None:
    def function(x: Any, k: int) -> Any:
        own = io.StringIO()
        print("k", k, sep="=", file=own)
        with contextlib.redirect_stdout(io.StringIO()) as other:
            print(k)
        return {own.getvalue() + other.getvalue(): x}

    assert list(pf.jit(function)(np.ones(3), 7)) == ["k=7\n7\n"]


def test_what_leads_to_an_error_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def function(x: Any, k: int) -> Any:
        print("before", k)
        return x if x.sum() > 0 else -x

    with pytest.raises(TraceError):
        pf.jit(function)(np.ones(3), 2)
    assert capsys.readouterr().out == "before 2\n"
