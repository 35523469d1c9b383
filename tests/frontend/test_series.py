"""`numpy.polynomial`: NumPy's own code, traced, for constant coefficients and for coefficients that are arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.polynomial import Polynomial
from numpy.polynomial import polynomial as powers
from numpy.polynomial.chebyshev import chebval

import polyfuse as pf
from polyfuse.errors import PolyfuseError, UnsupportedError

X, C = np.linspace(-1, 1, 7), np.array([1.0, 2.0, 3.0, -0.5])
KINDS = {
    "Polynomial": np.polynomial.polynomial.polyval,
    "Chebyshev": np.polynomial.chebyshev.chebval,
    "Legendre": np.polynomial.legendre.legval,
    "Hermite": np.polynomial.hermite.hermval,
    "HermiteE": np.polynomial.hermite_e.hermeval,
    "Laguerre": np.polynomial.laguerre.lagval,
}
HELD = Polynomial(C, domain=[0, 2])


def check(function: Callable[..., Any], *arguments: Any) -> None:
    expected, found = function(*arguments), pf.jit(function)(*arguments)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6 if found.dtype == np.float32 else 1e-13, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_those_of_numpy(kind: str) -> None:
    value, series = KINDS[kind], getattr(np.polynomial, kind)
    for x in (X, X.astype(np.float32), np.arange(4), X.reshape(7, 1)):
        check(lambda x: value(x, [1, 2, 3]), x)
        check(lambda x, c: value(x, c), x, C)
        check(lambda x: series(C, domain=[0, 3])(x), x)
        check(lambda x, c: series(c)(x), x, C)
    check(lambda x, c: value(x, c=c, tensor=False), X[:4], np.ones((3, 4)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: chebval(x, C), lambda x: HELD(x) + HELD.deriv()(x), lambda x: (HELD * HELD)(x),
        lambda x: np.polynomial.Chebyshev(C).convert(kind=Polynomial)(x), lambda x: HELD(HELD)(x),
        lambda x: x * isinstance(HELD, Polynomial), lambda x: powers.polyval(x, powers.polyder(x)),
        lambda x: powers.polyadd(x, C), lambda x: powers.polymul(x, C), lambda x: powers.polyvander(x, 3),
    ],
)  # fmt: skip
def test_other_functions_and_methods(function: Any) -> None:
    check(function, X)


def test_it_is_one_kernel_and_a_class_stays_what_it_is() -> None:
    assert len(pf.jit(lambda x, c: powers.polyval(x, c)).plan(X, C).kernels) == 1
    assert type(pf.jit(lambda x: (x, HELD))(X)[1]) is Polynomial


def test_what_looks_at_values_is_refused_with_the_line() -> None:
    for function in (powers.polyroots, powers.polytrim):
        with pytest.raises(UnsupportedError) as raised:
            pf.jit(lambda x, function=function: function(x))(X)
        assert raised.value.source is not None
        assert raised.value.source.file == __file__
    with pytest.raises(PolyfuseError, match="one coefficient"):
        pf.jit(lambda x: Polynomial(x)(1.0))(X[:0])
