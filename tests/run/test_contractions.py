"""Contractions that the caller's array library runs: which ones, when, and that they are right in every spelling."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import OptionError
from polyfuse.library_calls.contraction import NAME
from polyfuse.plan import LibraryCall, Plan


def calls(plan: Plan) -> list[str]:
    return [step.call.name for step in plan.steps if isinstance(step, LibraryCall)]


def drawn(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def layer(x, w, b):
    return np.maximum(x @ w + b, 0)


def attention(q, k, v):
    scores = np.einsum("bqhd,bphd->bhqp", q, k) / 8
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhqp,bphd->bqhd", e / e.sum(-1, keepdims=True), v)


def transposed(x, w):
    return x.T @ w.T


def two_axes(x, w):
    return np.tensordot(x, w, axes=([1, 2], [0, 1]))


def result_transposed(x, w):
    return np.einsum("ik,kj->ji", x, w) + 1


def slices(x, w):
    return x[3:, 5:597:2] @ w[::2, 1:][:296]


def reshaped(x, w):
    return (x.reshape(-1, 256) @ w).reshape(16, 32, -1).transpose(1, 0, 2)


def heads_joined(x, w):
    return x.transpose(0, 2, 1, 3).reshape(-1, 256) @ w  # no strided view of x: a kernel rearranges it first


def flipped(x, w):
    return x[:, ::-1] @ w


def one_array_twice(x):
    return x @ x.T


LARGE: list[tuple[Callable[..., Any], tuple[tuple[int, ...], ...], int]] = [
    (layer, ((512, 500), (500, 300), (300,)), 1),
    (attention, ((2, 160, 4, 64),) * 3, 2),
    (transposed, ((300, 500), (400, 300)), 1),
    (two_axes, ((200, 30, 20), (30, 20, 200)), 1),
    (result_transposed, ((300, 301), (301, 302)), 1),
    (slices, ((500, 600), (600, 396)), 1),
    (reshaped, ((16, 32, 256), (256, 256)), 1),
    (heads_joined, ((8, 4, 64, 64), (256, 256)), 1),
    (flipped, ((400, 400), (400, 400)), 1),
    (one_array_twice, ((400, 300),), 1),
]


@pytest.mark.parametrize(("code", "shapes", "count"), LARGE, ids=[c.__name__ for c, _, _ in LARGE])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_large_contraction_is_a_call_of_the_library(code, shapes, count, dtype) -> None:
    f, arrays = pf.jit(code), [drawn(*shape, dtype=dtype) for shape in shapes]
    got, exact = f(*arrays), code(*[a.astype(np.float64) for a in arrays])
    assert calls(f.plan(*arrays)) == [NAME] * count
    assert got.dtype == dtype and got.shape == exact.shape
    tolerance = 1e-5 if dtype == np.float32 else 1e-13
    assert np.abs(got - exact).max() <= tolerance * np.abs(exact).max()


def test_strided_arguments_are_read_in_place() -> None:
    f = pf.jit(layer)
    x, w, b = drawn(700, 600).T, drawn(700, 1200)[::-1, ::2], drawn(600)
    got = f(x, w, b)
    assert calls(f.plan(x, w, b)) == [NAME]
    assert np.abs(got - layer(*[a.astype(np.float64) for a in (x, w, b)])).max() < 1e-3


def heads(x, w, b):
    """Scores of heads that are cut out of one projection: no stride is common to batch and head."""
    projected = (x @ w + b).reshape(-1, 512, 2, 4, 64)
    q, k = (projected[:, :, n].swapaxes(1, 2) for n in range(2))
    return q @ k.swapaxes(-1, -2)


def test_an_operand_that_a_library_would_copy_is_written_as_it_wants_it() -> None:
    arrays = drawn(2 * 512, 256), drawn(256, 512), drawn(512)
    f = pf.jit(heads)
    exact = heads(*[a.astype(np.float64) for a in arrays])
    assert np.abs(f(*arrays) - exact).max() <= 1e-5 * np.abs(exact).max()
    for plan in (
        f.plan(*arrays),
        f.plan(*map(pf.spec, ("bf16[6144, 768]", "bf16[768, 512]", "bf16[512]")), target="h200", library="torch"),
    ):
        assert calls(plan) == [NAME] * 2
        (kernel,) = plan.kernels
        assert len(kernel.stores) == 2 and len(kernel.loads) == 2  # the bias is added where both heads are written


def test_rows_of_an_odd_length_are_slow_in_a_library() -> None:
    """By torch on an H100, 160 MB of bfloat16: 32 columns times 5 231 us, times 8 88; in tiles of rows 92."""

    def planned(specs: tuple[str, str]) -> list[str]:
        return calls(pf.jit(lambda x, w: x @ w).plan(*map(pf.spec, specs), target="h100", library="torch"))

    for specs in (("bf16[2800000, 32]", "bf16[32, 5]"), ("bf16[2400000, 8]", "bf16[8, 25]")):
        assert planned(specs) == []
    assert planned(("bf16[1000000, 48]", "bf16[48, 48]")) == [NAME]
    for specs in (("f16[155575, 14, 16]", "f16[155575, 16, 15]"), ("bf16[416666, 8, 8]", "bf16[416666, 8, 8]")):
        assert planned(specs) == []


def test_what_a_library_is_called_for_holds_for_products_as_narrow() -> None:
    """The plan that calls it for 33 columns times 7 held for 12 times 12, three times as fast in a kernel."""
    specs = "f32[M~1000000, K~{}]", "f32[K~{}, N~{}]"
    plan = pf.jit(lambda x, w: x @ w).plan(
        pf.spec(specs[0].format(33)), pf.spec(specs[1].format(33, 7)), target="h100", library="torch"
    )
    assert calls(plan) == [NAME]

    def holds(k: int, n: int) -> bool:
        return all(guard.holds({"M": 900000, "K": k, "N": n}) for guard in plan.guards)

    assert holds(33, 7) and holds(64, 8) and not holds(12, 12) and not holds(33, 12) and not holds(33, 4)


def test_operands_with_one_stride_per_group_stay_where_they_are() -> None:
    def batched(x, w):
        return x.swapaxes(1, 2) @ w

    arrays = drawn(12, 200, 100), drawn(12, 200, 300)
    plan = pf.jit(batched).plan(*arrays)
    assert calls(plan) == [NAME] and not plan.kernels
    assert np.allclose(pf.jit(batched)(*arrays), batched(*arrays), atol=1e-3)


def test_small_contractions_stay_in_the_kernel_with_their_neighbours() -> None:
    f = pf.jit(layer)
    arrays = drawn(16, 8), drawn(8, 24), drawn(24)
    assert np.allclose(f(*arrays), layer(*arrays), atol=1e-5)
    plan = f.plan(*arrays)
    assert calls(plan) == [] and len(plan.kernels) == 1


@pytest.mark.parametrize("shapes", [((0, 4), (4, 5), (5,)), ((3, 0), (0, 5), (5,)), ((3, 4), (4, 0), (0,))])
def test_empty_contractions(shapes) -> None:
    arrays = [drawn(*s) for s in shapes]
    assert np.array_equal(pf.jit(layer)(*arrays), layer(*arrays))


def test_one_plan_serves_its_whole_size_class_through_the_library() -> None:
    f = pf.jit(layer)
    for n in (300, 410, 520):
        arrays = drawn(n, n + 1), drawn(n + 1, n + 2), drawn(n + 2)
        assert np.abs(f(*arrays) - layer(*[a.astype(np.float64) for a in arrays])).max() < 1e-3
    counts = f.cache_info()
    assert counts.plans + counts.loads == 1  # made, or found on disk


def test_the_option_turns_it_off_and_plans_for_specs_know_no_library() -> None:
    arrays = drawn(512, 500), drawn(500, 300), drawn(300)
    assert calls(pf.jit(layer, library=False).plan(*arrays)) == []
    specs = [pf.spec("f32[512, 500]"), pf.spec("f32[500, 300]"), pf.spec("f32[300]")]
    assert calls(pf.jit(layer).plan(*specs)) == []
    assert calls(pf.jit(layer).plan(*specs, target="h200")) == []
    large = [pf.spec("bf16[4096, 4096]")] * 2 + [pf.spec("bf16[4096]")]
    assert calls(pf.jit(layer).plan(*large, target="h200")) == []
    assert calls(pf.jit(layer).plan(*large, target="h200", library="torch")) == [NAME]
    with pytest.raises(OptionError, match="library='blas'"):
        pf.jit(layer, library="blas")


def test_what_the_user_steers_stays_a_kernel() -> None:
    arrays = drawn(512, 500), drawn(500, 300), drawn(300)

    def named(x, w, b):
        product = x @ w
        y = np.maximum(product + b, 0)
        return y

    assert calls(pf.jit(named, together=("product", "y")).plan(*arrays)) == []
    assert calls(pf.jit(named).plan(*arrays)) == [NAME]


def test_integers_and_other_algebras_are_kernels() -> None:
    x = np.arange(300 * 300).reshape(300, 300)
    f = pf.jit(lambda a: a @ a)
    assert calls(f.plan(x)) == []
    assert np.array_equal(f(x), x @ x)
    g = pf.jit(lambda a, b: (a[:, :, None] * b[None]).max(axis=1))
    assert calls(g.plan(drawn(128, 128), drawn(128, 128))) == []


def test_sixteen_bit_products_accumulate_in_float32_on_a_device() -> None:
    """The plan for a device, run by the interpreter: the library gets the 16-bit arrays and rounds its sum once."""
    dtype = np.dtype(ml_dtypes.bfloat16)
    f = pf.jit(layer, target="generic", backend="interpreter", library="torch")
    arrays = [drawn(*s).astype(dtype) for s in ((1024, 1024), (1024, 512), (512,))]
    plan = f.plan(*arrays)
    assert calls(plan) == [NAME]
    assert "contraction(x[i, k], w[k, j], over k)" in str(plan)
    got, exact = f(*arrays), layer(*[a.astype(np.float64) for a in arrays])
    assert np.abs(got.astype(np.float64) - exact).max() <= 2**-7 * np.abs(exact).max()


def test_the_reason_is_logged_with_both_times_and_shown(caplog) -> None:
    arrays = drawn(512, 500), drawn(500, 300), drawn(300)
    with caplog.at_level(logging.INFO, logger="polyfuse.fusion"):
        plan = pf.jit(layer).plan(*arrays)
    assert any("in the library" in r.message and "in a kernel" in r.message for r in caplog.records)
    text = plan.explain()
    assert "call contraction = contraction(x[i, k], w[k, j], over k)" in text
    assert "the array library runs it" in text and "predicted" in text
    assert plan.cost_analysis().seconds > sum(k.seconds for k in plan.kernels)


def test_out_may_overlap_an_operand() -> None:
    f, x = pf.jit(lambda a, b: a @ b), drawn(400, 400)
    w = drawn(400, 401)[:, 1:]
    exact = x.astype(np.float64) @ w
    f(x, w, out=x)
    assert np.abs(x - exact).max() < 1e-3


def test_torch_tensors_on_the_host() -> None:
    torch = pytest.importorskip("torch")
    f = pf.jit(layer)
    x, w, b = torch.randn(512, 500), torch.randn(300, 500).T, torch.randn(300)
    got = f(x, w, b)
    assert calls(f.plan(x, w, b)) == [NAME]
    assert torch.allclose(got, torch.relu(x @ w + b), atol=1e-3)
