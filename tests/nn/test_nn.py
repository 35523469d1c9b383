"""Every function of ``pf.nn`` against its definition in float64, from the number of kernels expected."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyfuse as pf
from polyfuse import nn
from polyfuse.errors import ArgumentError, PolyfuseError, ShapeError
from tests.frontend.ops import run
from tests.nn.cases import CASES, Case, draw
from tests.nn.oracles import Array


def leaves(value: Any) -> list[Array]:
    if isinstance(value, Mapping):
        return [leaf for part in value.values() for leaf in leaves(part)]
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [np.asarray(value)]


def widened(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind in "fV" else array


def check(got: Any, expected: Any, tolerance: float) -> None:
    for a, b in zip(leaves(got), leaves(expected), strict=True):
        assert a.shape == b.shape
        scale = np.max(np.abs(b), initial=1e-30)
        np.testing.assert_allclose(widened(a), b, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_right_and_fused(case: Case) -> None:
    expected = case.expected(*map(widened, case.arguments))
    compiled = pf.jit(case.function)
    plans = [pf.jit(case.function, target="h200").plan(*case.arguments), compiled.plan(*case.arguments)]
    counts = [len(p.kernels) for p in plans]
    assert counts[0] <= case.h200 and counts[1] <= case.cpu, "\n\n".join(map(str, plans))
    assert not any(p.library_calls for p in plans)
    got = compiled(*case.arguments)
    assert {a.dtype for a in leaves(got)} == {np.dtype(np.float32)}
    check(got, expected, 2e-5)
    check(pf.jit(case.function, backend="interpreter")(*case.arguments), expected, 2e-5)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.bool_])
def test_sums_of_exponentials_of_small_integers_are_double(dtype: Any) -> None:
    """More of them than float16 counts."""

    def function(x: Any) -> Any:
        return nn.softmax(x), nn.log_softmax(x), pf.logsumexp(x), pf.logcumsumexp(x)[-1]

    x = np.ones(100000, dtype)
    for result, expected in zip(run(function, x), (1e-5, np.log(1e-5), 1 + np.log(1e5), 1 + np.log(1e5)), strict=True):
        assert result.dtype == np.float64
        np.testing.assert_allclose(result, expected, 1e-12)


def test_every_function_is_in_the_table_and_has_a_docstring() -> None:
    used = {name for case in CASES for name in names_in(case.function)} | set(names_in_oracles())
    assert set(nn.__all__) - used <= {"dropout"}
    for name in nn.__all__:
        assert (getattr(nn, name).__doc__ or "").strip().endswith((".", ")")), name


def names_in(function: Any) -> set[str]:
    return {function.__name__, *inspect.unwrap(function).__code__.co_names}


def names_in_oracles() -> list[str]:
    from tests.nn.oracles import ACTIVATIONS

    return list(ACTIVATIONS)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_floats_keep_their_dtype_and_are_computed_wide(dtype: str) -> None:
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    x, g = (draw(5, 33) * 300).astype(kind), draw(33).astype(kind)  # its squares do not fit float16

    @pf.jit(backend="interpreter")
    def f(x, g):
        return nn.rms_norm(x, g), nn.layer_norm(x), nn.softmax(x), nn.avg_pool(x[None], 3), nn.mse_loss(x[0] / 300, g)

    got = f(x, g)
    assert {a.dtype for a in got} == {kind}
    assert np.all(np.isfinite(widened(np.concatenate([a.ravel() for a in got]))))
    wide = pf.jit(f.__wrapped__, backend="interpreter")(widened(x), widened(g))
    check(got, wide, {"float16": 2e-3, "bfloat16": 2e-2, "float64": 1e-12}[dtype])


def test_integers_are_pooled_as_integers_and_averaged_as_floats() -> None:
    x = np.arange(24).reshape(1, 2, 12)
    got = pf.jit(lambda x: (nn.max_pool(x, 3, 3, 1), nn.avg_pool(x, 4)), backend="interpreter")(x)
    assert [a.dtype.kind for a in got] == ["i", "f"]
    assert got[0].tolist() == [[[1, 4, 7, 10], [13, 16, 19, 22]]]
    assert got[1].tolist() == [[[1.5, 5.5, 9.5], [13.5, 17.5, 21.5]]]


def test_letters_for_sizes() -> None:
    plan = pf.jit(lambda x, w: nn.relu(nn.conv(x, w, padding=1)), target="h200").plan(
        pf.spec("f32[B, 16, H, W]"), pf.spec("f32[32, 16, 3, 3]")
    )
    assert len(plan.kernels) == 1


def test_labels_out_of_range_are_seen() -> None:
    losses = pf.jit(lambda x, t: nn.cross_entropy(x, t, reduction="none"), backend="interpreter")(
        draw(4, 3), np.array([0, 3, -1, -100])
    )
    assert np.isnan(losses).tolist() == [False, True, True, False]
    assert losses[3] == 0


def test_dropout_is_that_of_its_key_and_keeps_the_mean() -> None:
    x = np.ones(400, np.float32)
    got = run(lambda x, seed: nn.dropout(x, 0.25, pf.random.key(seed)), x, 7)
    np.testing.assert_array_equal(got, pf.random.dropout(pf.random.key(7), x, 0.25))
    assert set(np.unique(got)) == {np.float32(0), np.float32(1 / 0.75)} and abs(got.mean() - 1) < 0.1


def test_outside_of_a_jitted_function_numpy_computes() -> None:
    x, w = draw(2, 3, 9, 7), draw(4, 3, 3, 3)
    y = nn.group_norm(nn.conv(x, w, padding=1), 2)
    assert type(y) is np.ndarray and y.dtype == np.float32
    check(pf.jit(lambda x, w: nn.group_norm(nn.conv(x, w, padding=1), 2), backend="interpreter")(x, w), y, 2e-5)


def test_values_have_the_names_of_the_caller() -> None:
    def block(x, w):
        hidden = nn.conv(x, w)
        normal = nn.layer_norm(hidden)
        return normal

    text = str(pf.jit(block, target="h200").plan(draw(2, 3, 9), draw(4, 3, 3)))
    assert "hidden" in text and "normal" in text and "hidden_1" not in text


@pytest.mark.parametrize(
    "function, kind, message",
    [
        (lambda x: nn.conv(x, x, groups=2), ShapeError, "4 channels in 2 groups do not fit weights of shape (3, 4, 5)"),
        (lambda x: nn.conv(x, x[0]), ShapeError, "not 3 and 2"),
        (lambda x: nn.conv(x, x, stride=(1, 2)), ShapeError, "one number to each of 1 axes"),
        (lambda x: nn.conv(x, x, padding="full"), ShapeError, "there is no padding 'full'"),
        (lambda x: nn.max_pool(x[0], 2), ShapeError, "not one of rank 2"),
        (lambda x: nn.max_pool(x, 6), ShapeError, "does not fit axis"),
        (lambda x: nn.group_norm(x, 3), ShapeError, "4 channels do not form 3 groups"),
        (lambda x: nn.batch_norm(x, x[0, :, 0]), ShapeError, "both or neither of mean and var"),
        (lambda x: nn.mse_loss(x, x, "max"), ArgumentError, "there is no reduction 'max'"),
        (lambda x: nn.resize(x, 3, "cubic"), ArgumentError, "there is no mode 'cubic'"),
        (lambda x: nn.rotary_embedding(x), ShapeError, "of which there are 5"),
        (lambda x: nn.cross_entropy(x, x[0, 0]), ShapeError, "targets of rank 1 do not fit"),
    ],
)
def test_errors_stand_on_the_callers_line(function: Any, kind: type[PolyfuseError], message: str) -> None:
    with pytest.raises(kind) as caught:
        pf.jit(function).plan(pf.spec("f32[3, 4, 5]"))
    assert message in str(caught.value)
    assert caught.value.source is not None and caught.value.source.file == __file__
