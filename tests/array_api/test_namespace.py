"""The namespace that the suite of the standard is run on: its functions are compiled, and right on a few calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polyfuse.errors import PolyfuseError
from tests.array_api import namespace as xp
from tests.array_api import suite
from tests.array_api.reasons import COMPLEX, is_name_of_an_error, reason_of

A = np.arange(12, dtype=np.float64).reshape(3, 4) / 4

CALLS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "function": (lambda xp, x: xp.hypot(x, 2), np.hypot(A, 2)),
    "options": (lambda xp, x: xp.sum(x, axis=(0,), keepdims=True, dtype=xp.float32), A.sum(0, "f4", keepdims=True)),
    "number first": (lambda xp, x: 2 - x, 2 - A),
    "in place": (lambda xp, x: _doubled(x), 2 * A),
    "subscript": (lambda xp, x: x[1, ::-2], A[1, ::-2]),
    "sequence": (lambda xp, x: xp.concat([x, x[:1, :]]), np.concat([A, A[:1]])),
    "creation": (lambda xp, x: xp.eye(3, 4, k=1) + x, np.eye(3, 4, 1) + A),
    "named tuple": (lambda xp, x: xp.linalg.qr(x).R, np.linalg.qr(A).R),
}


def _doubled(x: Any) -> Any:
    x *= 2
    return x


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    call, wanted = CALLS[name]
    got = call(xp, xp.asarray(A, copy=True))
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got.data, wanted, rtol=1e-6)


def test_a_function_is_jitted_and_its_errors_show_the_line() -> None:
    with pytest.raises(PolyfuseError, match=r'File "<array api linalg\.eigvals>", line 2'):
        xp.linalg.eigvals(xp.asarray(A[:3, :3]))


def test_elements_are_written() -> None:
    x = xp.asarray(A, copy=True)
    x[1, :] = x[0, :] * 10
    wanted = A.copy()
    wanted[1] = A[0] * 10
    np.testing.assert_array_equal(x.data, wanted)


def test_division_of_and_by_infinities_is_the_standards() -> None:
    a, b = np.array([np.inf, -np.inf, 1.0, -1.0, 7.0]), np.array([2.0, 2.0, -np.inf, np.inf, 2.0])
    wanted = np.array([np.inf, -np.inf, -0.0, -0.0, 3.0])
    divided = xp.asarray(a, copy=True)
    divided //= xp.asarray(b)
    for found in (xp.floor_divide(xp.asarray(a), xp.asarray(b)), xp.asarray(a) // xp.asarray(b), divided):
        np.testing.assert_array_equal(found.data, wanted)
        np.testing.assert_array_equal(np.signbit(found.data), np.signbit(wanted))
    assert (7.0 // xp.asarray(b[:2])).data.tolist() == [3.0, 3.0]


def test_another_suite_is_noticed(tmp_path: Any) -> None:
    files = tmp_path / "checkout" / "array_api_tests"
    files.mkdir(parents=True)
    for name in ("dtype_helpers.py", "test_signatures.py"):
        (files / name).write_text("nothing of the kind\n")
    with pytest.raises(ValueError, match="another version of the suite"):
        suite.copied(tmp_path / "checkout", tmp_path / "copy")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("polyfuse.errors.UnsupportedError: np.fft.rfft has complex results, and programs are real\n  File", COMPLEX),
        ("AssertionError: out=0.5, but should be 1.0\nmore", "AssertionError: out=0.5, but should be 1.0"),
    ],
)
def test_reasons(message: str, reason: str) -> None:
    assert reason_of({"id": "test", "message": message, "text": ""}) == reason


def test_names_of_functions_that_only_raise_are_counted() -> None:
    named = [
        "test_has_names.py::test_has_names[fft-rfft]",
        "test_signatures.py::test_extension_func_signature[fft.rfft]",
    ]
    assert all(map(is_name_of_an_error, named))
    assert not is_name_of_an_error("test_has_names.py::test_has_names[fft-fftshift]")
    assert not is_name_of_an_error("test_fft.py::test_rfft")
