"""What `make demo` shows: speed-ups, a stencil on a photograph, an explanation, a refused fusion.

`--quick` leaves out the largest arrays and times less.

Runs on the NVIDIA GPU where there is one (arrays of torch, CuPy or Numba, whichever is installed), else on the CPU.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import polyfuse as pf

QUICK = "--quick" in sys.argv[1:]
SIZES = (1024, 2048) if QUICK else (1024, 4096, 8192, 16384)
SECONDS = 0.1 if QUICK else 1.0  # spent on timing one contender at one size
WEIGHTS = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)


def chain(x, y):
    return pf.sigmoid(pf.relu((x + y) * 2) - 1)


def numpy_chain(x, y):
    return 1 / (1 + np.exp(-(np.maximum((x + y) * 2, 0) - 1)))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def sharpened(image, amount):
    x = image.astype(np.float32)
    rows = sum(w * x[:, k : x.shape[1] - 4 + k] for k, w in enumerate(WEIGHTS))
    blurred = sum(w * rows[k : x.shape[0] - 4 + k] for k, w in enumerate(WEIGHTS))
    centre = x[2:-2, 2:-2]
    return np.clip(centre + amount * (centre - blurred), 0, 255).astype(np.uint8)


def picked(x, index):
    sums = np.cumsum(x)
    y = sums[index]
    return y


# ---------------------------------------------------------------------------------------------- machines


@dataclass(frozen=True)
class Machine:
    """Where the compiled code runs: how arrays get there and back, and how to wait for it."""

    name: str
    put: Callable[[np.ndarray], Any]
    get: Callable[[Any], np.ndarray]
    wait: Callable[[], object]


def machine() -> Machine:
    """The GPU through the first array library that can use one, else the CPU."""
    for find in (torch_machine, cupy_machine, numba_machine):
        try:
            found = find()
        except ImportError:
            continue
        if found is not None:
            return found
    return Machine(f"CPU, {os.cpu_count()} cores", lambda a: a, lambda a: a, lambda: None)


def torch_machine() -> Machine | None:
    torch = import_module("torch")
    if not torch.cuda.is_available():
        return None
    name = f"{torch.cuda.get_device_name()}, torch tensors"
    return Machine(name, lambda a: torch.tensor(a, device="cuda"), lambda t: t.cpu().numpy(), torch.cuda.synchronize)


def cupy_machine() -> Machine | None:
    cupy = import_module("cupy")
    if not cupy.is_available():
        return None
    return Machine("CUDA, CuPy arrays", cupy.asarray, cupy.asnumpy, cupy.cuda.Device().synchronize)


def numba_machine() -> Machine | None:
    cuda = import_module("numba.cuda")
    if not cuda.is_available():
        return None
    return Machine("CUDA, Numba device arrays", cuda.to_device, lambda a: a.copy_to_host(), cuda.synchronize)


# ---------------------------------------------------------------------------------------------- measuring


def milliseconds(run: Callable[[], object], wait: Callable[[], object]) -> float:
    """The median of as many calls as fit in the time, after one that compiles and warms up."""
    run()
    wait()
    found: list[float] = []
    while len(found) < 3 or (sum(found) < SECONDS and len(found) < 50):
        start = time.perf_counter()
        run()
        wait()
        found.append(time.perf_counter() - start)
        if sum(found) > 4 * SECONDS:
            break
    return statistics.median(found) * 1e3


def race(on: Machine, label: str, function: Callable[..., Any], in_numpy: Callable[..., Any], *arrays: Any) -> None:
    """One line: NumPy, compiled one kernel per operation, compiled and fused."""
    loose, fused = pf.jit(function, fuse=False), pf.jit(function)
    placed = [on.put(a) for a in arrays]
    result = on.get(fused(*placed))
    rows = slice(0, 64)  # enough to see that it is right
    expected = in_numpy(*(a[rows] for a in arrays))
    np.testing.assert_allclose(result[rows], expected, rtol=1e-4, atol=1e-6)
    del result
    unfused = milliseconds(lambda: loose(*placed), on.wait)
    ours = milliseconds(lambda: fused(*placed), on.wait)
    numpy = milliseconds(lambda: in_numpy(*arrays), lambda: None)
    kernels = f"{len(loose.plan(*placed).kernels)} -> {len(fused.plan(*placed).kernels)}"
    ratios = f"{numpy / ours:6.1f}x {unfused / ours:6.1f}x"
    print(f"  {label:15} {kernels:>8} {numpy:10.2f} ms {unfused:8.2f} ms {ours:8.2f} ms {ratios}", flush=True)


def free_bytes() -> int:
    """Memory that is free now."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


# ---------------------------------------------------------------------------------------------- what is shown


def show_speed(on: Machine) -> None:
    rng = np.random.default_rng(0)
    print("  program          kernels        NumPy    unfused       fused   over NumPy, unfused")
    for n in SIZES:
        if 10 * 4 * n * n > free_bytes():
            print(f"  chain {n}^2: not enough memory")
            continue
        x, y = (rng.random((n, n), dtype=np.float32) - 0.5 for _ in range(2))
        race(on, f"chain {n}^2", chain, numpy_chain, x, y)
    n = SIZES[1]
    race(on, f"softmax {n}^2", softmax, softmax, rng.standard_normal((n, n), dtype=np.float32))


def show_stencil(on: Machine) -> None:
    photograph = np.asarray(Image.open(Path(__file__).parent / "data" / "camera.png"))
    fused = pf.jit(sharpened)
    placed = on.put(photograph)
    result = on.get(fused(placed, 2.0))
    assert np.abs(result.astype(int) - sharpened(photograph, np.float32(2.0))).max() <= 1
    path = Path("camera_sharpened.png")
    Image.fromarray(result).save(path)
    ours = milliseconds(lambda: fused(placed, 2.0), on.wait)
    numpy = milliseconds(lambda: sharpened(photograph, np.float32(2.0)), lambda: None)
    count = len(fused.plan(placed, 2.0).kernels)
    kernels = f"{count} kernel{'s' * (count > 1)}"
    print(f"  camera.png -> {path}: NumPy {numpy:.2f} ms, {kernels} {ours:.2f} ms, {numpy / ours:.1f}x")


def show_refusal() -> None:
    plan = pf.jit(picked).plan(pf.spec("f32[N]"), pf.spec("i64[M]"), target="h200")
    verdict = plan.why_not("sums", "y")
    assert verdict.witness is not None
    print("  sums = cumsum(x); y = sums[index], in one kernel?")
    print(f"  {verdict.kind.value}: {verdict.sentence}")
    print(f"  witness: {verdict.witness}")


def main() -> None:
    on = machine()
    print(f"polyfuse {pf.__version__} on {on.name}\n")
    print("1. Speed: chain is sigmoid(relu((x + y)*2) - 1), float32; unfused runs one compiled kernel per operation")
    show_speed(on)
    print("\n2. A stencil on a photograph: separable blur, unsharp mask, clipping")
    show_stencil(on)
    print("\n3. Why one kernel, and what it costs, on an H200 (planning needs no GPU)\n")
    print(pf.jit(softmax).plan(pf.spec("f32[N, 4096]"), target="h200").explain())
    print("\n4. A fusion that is refused, and the two instances that prove it\n")
    show_refusal()


if __name__ == "__main__":
    main()
