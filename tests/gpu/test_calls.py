"""Calls with device arrays of every library: the same kind back, on the caller's stream, capturable, cheap."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import ArgumentError, DeviceError, IndexFault, PolyfuseError

pytestmark = pytest.mark.gpu


def chain(x, y):
    return np.maximum((x + y) * 2, 0) - 1


def normalised(x):
    return x / np.sqrt((x * x).sum())


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture
def cupy() -> Any:
    return pytest.importorskip("cupy")


def host_microseconds(call: Callable[[], object], synchronise: Callable[[], object]) -> float:
    """Median host time of one call, the device kept ahead of the queue."""
    for _ in range(50):
        call()
    spans = []
    for _ in range(15):
        synchronise()
        start = time.perf_counter()
        for _ in range(100):
            call()
        spans.append((time.perf_counter() - start) / 100)
    synchronise()
    return 1e6 * float(np.median(spans))


# ---------------------------------------------------------------------------------------------- torch


def test_torch_tensors(torch) -> None:
    f = pf.jit(chain)
    wide = torch.randn(64, 130, device="cuda")
    for x in (wide, wide[:, 1:], wide[::2], wide.T, wide[0].expand(5, 130), wide[:, :0], wide.half(), wide[3, 4]):
        expected = torch.relu((x + x) * 2) - 1
        result = f(x, x)
        assert result.device == x.device
        assert result.dtype == x.dtype
        torch.testing.assert_close(result, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("axis", [0, None])
def test_sums_that_blocks_merge_in_any_order(torch, dtype: str, axis: int | None) -> None:
    def summed(x):
        s = x.sum(axis=axis)
        return s

    f = pf.jit(summed, atomics=True, tiles={"s": {"atomic": 1}})
    for shape in ((3001, 333), (100000, 64), (70001, 7)):
        x = (100 * torch.randn(shape, device="cuda")).to(getattr(torch, dtype))
        expected = x.double().sum() if axis is None else x.double().sum(0)
        for _ in range(3):  # each call fills its result anew
            torch.testing.assert_close(f(x).double(), expected, rtol=1e-4, atol=1.0 if dtype == "float32" else 1e-6)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = f(x)
    for _ in range(3):
        graph.replay()
    torch.testing.assert_close(result.double(), expected, rtol=1e-4, atol=1.0 if dtype == "float32" else 1e-6)


@pytest.mark.parametrize(("ufunc", "dtype", "width"), [
    (np.add, "float32", 1), (np.add, "float32", 256), (np.add, "float64", 1), (np.add, "bfloat16", 3),
    (np.multiply, "float64", 1), (np.maximum, "float32", 1), (np.maximum, "float32", 256),
])  # fmt: skip
def test_scatters_have_the_same_bits_in_every_run(torch, ufunc: np.ufunc, dtype: str, width: int) -> None:
    def scattered(x, i, u):
        x = x.copy()
        ufunc.at(x, i, u)
        return x

    f, count = pf.jit(scattered), 200_000
    x, u = (1 + torch.rand((n, width), device="cuda").to(getattr(torch, dtype)) / 64 for n in (1000, count))
    i = torch.randint(-1000, 1000, (count,), device="cuda")
    first, *others = (f(x, i, u) for _ in range(4))
    assert all(torch.equal(first, other) for other in others)
    expected = x.double().cpu().numpy()
    ufunc.at(expected, i.cpu().numpy(), u.double().cpu().numpy())
    rounding = {"float64": 1e-12, "float32": 1e-5, "bfloat16": 1e-2}[dtype]
    np.testing.assert_allclose(first.double().cpu().numpy(), expected, rtol=rounding)


def test_torch_out_bind_and_workspace(torch) -> None:
    f, g = pf.jit(chain), pf.jit(normalised, fuse=False)
    x, y = (torch.randn(300, 257, device="cuda") for _ in range(2))
    out = torch.empty_like(x)
    assert f(x, y, out=out) is out
    torch.testing.assert_close(out, torch.relu((x + y) * 2) - 1)
    strided = torch.zeros(257, 300, device="cuda").T
    f(x, y, out=strided)
    torch.testing.assert_close(strided, out)
    torch.testing.assert_close(g(x), x / (x * x).sum().sqrt())
    bound = f.bind(x, y, out=x)
    bound()
    torch.testing.assert_close(x, out)


def test_torch_current_stream(torch) -> None:
    """The producer is slow and on another stream: a launch on any other stream would read too early."""
    f = pf.jit(chain)
    x = torch.zeros(1 << 20, device="cuda")
    f(x, x)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        x.fill_(3.0)
        result = f(x, x)
    stream.synchronize()
    assert (result == 11).all()


def test_torch_graph_capture_with_counters(torch) -> None:
    """A multi-kernel plan with a last-block reduction replays, beside eager calls on the capturing stream."""
    f = pf.jit(normalised)
    x = torch.randn(2048, 1024, device="cuda")
    f(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = f(x)
    for _ in range(5):
        x.normal_()
        graph.replay()
        eager = f(x)
        torch.cuda.synchronize()
        torch.testing.assert_close(result, x / (x * x).sum().sqrt())
        torch.testing.assert_close(eager, result)


def test_captured_reductions_run_side_by_side_and_outlive_their_function(torch) -> None:
    """Each captured call counts arrivals in memory of its own, which is zero when a replay begins, and stays."""
    f = pf.jit(lambda x: (x * x).sum())
    xs = [torch.randn(1 << 22, device="cuda") for _ in range(4)]
    f(xs[0])
    torch.cuda.synchronize()
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph):
        first, second = torch.cuda.Event(), torch.cuda.Event()
        first.record()
        found = [f(xs[0]), f(xs[1])]
        with torch.cuda.stream(side):
            side.wait_event(first)
            found += [f(xs[2]), f(xs[3])]
            second.record()
        torch.cuda.current_stream().wait_event(second)
    del f
    gc.collect()
    torch.full((1 << 20,), 7.0, device="cuda")
    for _ in range(20):
        for x in xs:
            x.normal_()
        graph.replay()
        torch.cuda.synchronize()
        for x, y in zip(xs, found, strict=True):
            torch.testing.assert_close(y.double(), (x.double() ** 2).sum(), rtol=1e-5, atol=0.0)


def test_a_graph_of_several_kernels_replays(torch) -> None:
    """Its intermediates and counters are its own: eager calls, and the replays of another graph, run beside it."""
    f = pf.jit(normalised, fuse=False)
    x, other = torch.randn(2048, 1024, device="cuda"), torch.randn(2048, 1024, device="cuda")
    out = torch.empty_like(x)
    launch, second = f.graph(x, out=out), f.graph(other)
    for _ in range(5):
        x.normal_()
        other.normal_()
        assert launch() is out
        result, eager = second(), f(x)
        torch.cuda.synchronize()
        torch.testing.assert_close(out, x / (x * x).sum().sqrt())
        torch.testing.assert_close(result, other / (other * other).sum().sqrt())
        torch.testing.assert_close(eager, out)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        x.fill_(2.0)
        launch()
    stream.synchronize()
    torch.testing.assert_close(out, x / (x * x).sum().sqrt())


def test_a_graph_holds_kernels_only(torch) -> None:
    x = torch.randn(64, 64, device="cuda")
    with pytest.raises(ArgumentError, match="calls the array library"):
        pf.jit(lambda x: np.sort(x + 1, axis=1)).graph(x)
    with pytest.raises(ArgumentError, match="copies a result"):
        pf.jit(chain).graph(x, x, out=torch.empty(64, 128, device="cuda")[:, ::2])


def test_a_first_call_inside_a_capture_is_refused(torch) -> None:
    f, x = pf.jit(chain), torch.randn(64, 64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    refusal = "first time .* while a CUDA graph is being captured"
    with torch.cuda.graph(graph):
        x.add_(0)  # torch warns of empty graphs
        with pytest.raises(DeviceError, match=refusal):
            f(x, x)
    torch.testing.assert_close(f(x, x), torch.relu((x + x) * 2) - 1)


def test_an_index_out_of_bounds_is_told_at_the_next_call(torch) -> None:
    def looked_up(x, i):
        y = x[i] * 2
        return y

    f, g = pf.jit(looked_up), pf.jit(chain)
    x, i = torch.arange(10.0, device="cuda"), torch.zeros(5000, dtype=torch.int64, device="cuda")
    torch.testing.assert_close(f(x, i), x[i] * 2)
    pf.synchronize()
    for wrong in (10, -11, 2**40, -(2**40)):
        i[1234] = wrong
        f(x, i)
        with pytest.raises(IndexFault, match="y = x.i. . 2"):
            pf.synchronize()
        f(x, i)
        torch.cuda.synchronize()
        with pytest.raises(IndexFault, match="an index into x is out of bounds"):
            g(x, x)
        i[1234] = -1
        torch.testing.assert_close(f(x, i), x[i] * 2)
        pf.synchronize()
    graph = f.graph(x, i)
    i[7] = 10
    graph()
    with pytest.raises(IndexFault):
        pf.synchronize()
    i[7] = 11
    clipped = pf.jit(looked_up, bounds="clip")(x, i)
    assert clipped[7] == 18
    pf.synchronize()


def test_torch_refusals(torch) -> None:
    f, x = pf.jit(chain), torch.zeros(3, device="cuda")
    with pytest.raises(ArgumentError, match="x is on cuda:0, y is on cpu"):
        f(x, torch.zeros(3))
    with pytest.raises(ArgumentError, match="y requires grad"):
        f(x, torch.zeros(3, device="cuda", requires_grad=True))
    with pytest.raises(PolyfuseError):
        f(x, torch.zeros(4, device="cuda"))
    with pytest.raises(ArgumentError, match="out is on cpu"):
        f(x, x, out=torch.zeros(3))


# ---------------------------------------------------------------------------------------------- other libraries


def test_cupy_arrays(cupy) -> None:
    f = pf.jit(chain)
    wide = cupy.random.standard_normal((64, 130), dtype=cupy.float32)
    for x in (wide, wide[:, 1:], wide[::-2], wide.T, wide[:, :0], wide[3, 4]):
        result = f(x, x)
        assert isinstance(result, cupy.ndarray)
        cupy.testing.assert_allclose(result, cupy.maximum((x + x) * 2, 0) - 1, rtol=1e-6)
    cupy.testing.assert_allclose(pf.jit(normalised, fuse=False)(wide), wide / cupy.sqrt((wide * wide).sum()), rtol=1e-5)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        result = f(wide, wide)
        stream.synchronize()
    cupy.testing.assert_allclose(result, cupy.maximum((wide + wide) * 2, 0) - 1, rtol=1e-6)


def test_numba_arrays() -> None:
    cuda = pytest.importorskip("numba.cuda")
    x = np.random.default_rng(0).standard_normal((40, 50)).astype(np.float32)
    device = cuda.to_device(x)
    result = pf.jit(chain)(device, device)
    assert type(result) is type(device)
    np.testing.assert_allclose(result.copy_to_host(), chain(x, x), rtol=1e-6)
    out = cuda.device_array((40, 50), np.float32)
    pf.jit(chain)(device, device, out=out)
    np.testing.assert_allclose(out.copy_to_host(), chain(x, x), rtol=1e-6)
    total = pf.jit(lambda x: np.exp(x).sum(axis=0), fuse=False)(device)
    np.testing.assert_allclose(total.copy_to_host(), np.exp(x).sum(axis=0), rtol=1e-5)


def test_cuda_array_interface(cupy) -> None:
    class Foreign:
        def __init__(self, array: Any) -> None:
            self.array, self.shape, self.dtype = array, array.shape, array.dtype
            self.__cuda_array_interface__ = array.__cuda_array_interface__

    x = cupy.arange(12, dtype=cupy.float32)
    cupy.testing.assert_array_equal(pf.jit(lambda x: x * 2)(Foreign(x)), x * 2)


# ---------------------------------------------------------------------------------------------- host time


def test_host_time_with_torch_tensors(torch, record_property) -> None:
    f, x, y = pf.jit(chain), torch.randn(32, 32, device="cuda"), torch.randn(32, 32, device="cuda")
    times = {
        "call": host_microseconds(lambda: f(x, y), torch.cuda.synchronize),
        "same array twice": host_microseconds(lambda: f(x, x), torch.cuda.synchronize),
        "out": host_microseconds(lambda: f(x, y, out=x), torch.cuda.synchronize),
        "bound": host_microseconds(f.bind(x, y, out=torch.empty_like(x)), torch.cuda.synchronize),
        "graph": host_microseconds(f.graph(x, y), torch.cuda.synchronize),
        "eager add": host_microseconds(lambda: torch.add(x, y), torch.cuda.synchronize),
        "empty": host_microseconds(lambda: torch.empty_like(x), torch.cuda.synchronize),
    }
    record_property("microseconds", times)
    print(f"torch, host microseconds: {times}")
    assert times["call"] < 15  # measured 5 to 6 on the machine of benchmarks/results; slower hosts pass


def test_host_time_with_cupy_arrays(cupy, record_property) -> None:
    f, x = pf.jit(chain), cupy.zeros((32, 32), cupy.float32)
    synchronise = cupy.cuda.Device().synchronize
    times = {
        "call": host_microseconds(lambda: f(x, x), synchronise),
        "empty": host_microseconds(lambda: cupy.empty_like(x), synchronise),
    }
    record_property("microseconds", times)
    print(f"cupy, host microseconds: {times}")
    assert times["call"] < 18


def test_constants_of_the_program_go_to_the_device(torch) -> None:
    weights = np.array([0.5, 2.0, 1.0], np.float32)
    f = pf.jit(lambda x: np.take(np.pad(x, ((0, 0), (1, 1)), mode="reflect"), [0, 2, -1], axis=1) * weights)
    x = torch.randn(8, 5, device="cuda")

    def expected() -> np.ndarray:
        padded = np.pad(x.cpu().numpy(), ((0, 0), (1, 1)), mode="reflect")
        return padded[:, [0, 2, -1]] * weights

    assert np.array_equal(f(x).cpu().numpy(), expected())
    weights[1] = -3.0
    assert np.array_equal(f(x).cpu().numpy(), expected())
