"""Arrays beyond 2**31 elements on a CUDA device: `python -m tests.gpu.large`, some 40 GB of its memory.

Narrow dtypes keep a tensor to 2 to 9 GB.  Elements are compared with torch on slices around the ends and around the
2**31st element, and as exact sums of integers over everything.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import polyfuse as pf
from tests.gpu.listed import run_checks

Torch = Any
Tensor = Any
ROWS, COLUMNS = 65537, 32800  # 2**31 + 2.1 million elements
LONG = 2**31 + 77


def pattern(torch: Torch, count: int) -> Tensor:
    """Integers of a byte whose pattern no power of two divides."""
    found = torch.empty(count, dtype=torch.int8, device="cuda")
    step = 1 << 26
    for start in range(0, count, step):
        part = torch.arange(start, min(count, start + step), device="cuda")
        found[start : start + step] = (part * 37 % 251 - 125).to(torch.int8)
    return found


def matrix(torch: Torch) -> Tensor:
    return pattern(torch, ROWS * COLUMNS).view(ROWS, COLUMNS)


def total(torch: Torch, x: Tensor) -> int:
    """The exact sum, in parts that torch adds in 64 bits."""
    return sum(int(part.sum(dtype=torch.int64)) for part in x.reshape(-1).split(1 << 28))


def slices(count: int) -> list[slice]:
    """The ends, and the element at which 32 bits end."""
    places = (0, 2**31 - 1000, count - 1000)
    return [slice(max(0, p), min(count, p + 2000)) for p in places]


def same_slices(torch: Torch, got: Tensor, wanted: Callable[[slice], Tensor]) -> None:
    for part in slices(len(got)):
        assert torch.equal(got[part], wanted(part)), f"differs in {part}"


def pointwise(torch: Torch) -> None:
    x = pattern(torch, LONG)
    y = pf.jit(lambda x: np.maximum(x, -100) // 2 + 1)(x)
    same_slices(torch, y, lambda s: torch.clamp(x[s], min=-100) // 2 + 1)
    assert total(torch, y) == sum(total(torch, torch.clamp(p, min=-100) // 2 + 1) for p in x.split(1 << 28))


def just_below(torch: Torch) -> None:
    """The last sizes of which all offsets, but not all rounded ones, have 32 bits."""
    for count in (2**31 - 2**16, 2**31 - 2**16 - 1):
        x = pattern(torch, count)
        assert int(pf.jit(lambda x: x.sum())(x)) == total(torch, x)


def everything(torch: Torch) -> None:
    x = matrix(torch)
    assert int(pf.jit(lambda x: (x.astype(np.int64) * x).sum())(x)) == sum(
        int((p.long() ** 2).sum()) for p in x.view(-1).split(1 << 27)
    )


def rows(torch: Torch) -> None:
    x = matrix(torch)
    sums, best = pf.jit(lambda x: (x.sum(axis=1), x.argmax(axis=1)))(x)
    wanted = torch.cat([p.sum(dim=1, dtype=torch.int64) for p in x.split(4096)])
    assert torch.equal(sums, wanted)
    assert torch.equal(x.gather(1, best[:, None])[:, 0], torch.cat([p.amax(dim=1) for p in x.split(4096)]))


def columns(torch: Torch) -> None:
    x = matrix(torch)
    wanted = sum(p.sum(dim=0, dtype=torch.int64) for p in x.split(4096))
    assert torch.equal(pf.jit(lambda x: x.sum(axis=0))(x), wanted)


def normalised_rows(torch: Torch) -> None:
    x = matrix(torch).half() / 64

    def softmax(x):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    y = pf.jit(softmax)(x)
    for part in (slice(0, 3), slice(65470, 65490), slice(ROWS - 3, ROWS)):
        torch.testing.assert_close(y[part], torch.softmax(x[part].float(), 1).half(), rtol=2e-3, atol=1e-7)


def framed_rows(torch: Torch) -> None:
    """Odd rows of 16 bits, of which vectors lie across the 2**31st element and at the end of the array."""
    rows, length = 42751, 50257  # 2**31 + 1.05 million elements
    x, s = pattern(torch, rows * length).view(rows, length).half(), torch.arange(rows, device="cuda").half() / 65536
    y, sums = pf.jit(lambda x, s: x * s[:, None])(x, s), pf.jit(lambda x: x.sum(axis=1, dtype=np.float32))(x)
    middle = 2**31 // length
    for part in (slice(0, 3), slice(middle - 1, middle + 3), slice(rows - 3, rows)):
        assert torch.equal(y[part], (x[part].float() * s[part, None].float()).half())
        torch.testing.assert_close(sums[part], x[part].double().sum(1).float(), rtol=1e-5, atol=1e-2)


def strided(torch: Torch) -> None:
    x = matrix(torch)
    got = pf.jit(lambda x: x[::-2, 1::3] // 2)(x)
    assert torch.equal(got, torch.flip(x, (0,))[::2, 1::3] // 2)
    half = x[:, ::2]  # a strided argument, its last element beyond 2**31
    assert torch.equal(pf.jit(lambda x: x // 2)(half), half // 2)


def gathered(torch: Torch) -> None:
    table = matrix(torch)
    x, count = table.view(-1), ROWS * COLUMNS
    index = torch.randint(0, count, (1 << 20,), device="cuda")
    index[:4] = torch.tensor([count - 1, 2**31, 2**31 - 1, -1], device="cuda")
    assert torch.equal(pf.jit(lambda x, i: x[i] // 2)(x, index), x[index] // 2)
    picked = torch.tensor([ROWS - 1, 0, 65000, -2], device="cuda")
    assert torch.equal(pf.jit(lambda x, i: x[i] // 2)(table, picked), table[picked] // 2)


def transposed(torch: Torch) -> None:
    x = matrix(torch)
    y = pf.jit(lambda x: x.T // 2)(x)
    assert y.is_contiguous()
    same_slices(torch, y, lambda s: x[:, s].T // 2)
    assert total(torch, y) == sum(total(torch, p // 2) for p in x.split(4096))


def prefix(torch: Torch) -> None:
    x = matrix(torch)
    y = pf.jit(lambda x: np.cumsum(x, axis=1, dtype=np.int32))(x)
    for part in (slice(0, 3), slice(65470, 65490), slice(ROWS - 3, ROWS)):
        assert torch.equal(y[part], x[part].cumsum(1, dtype=torch.int32))


def wide_elements(torch: Torch) -> None:
    """Fewer than 2**31 elements, more than 2**32 bytes."""
    x = torch.arange(600_000_001, dtype=torch.float64, device="cuda")
    y = pf.jit(lambda x: x[::-1] - x)(x)
    assert y[0] == 600_000_000 and y[-1] == -600_000_000 and y[300_000_000] == 0
    assert torch.equal(y[550_000_000:550_001_000], 600_000_000 - 2 * x[550_000_000:550_001_000])


CHECKS = {
    f.__name__: f
    for f in (
        *(pointwise, just_below, everything, rows, columns, normalised_rows, strided, gathered, transposed, prefix),
        *(framed_rows, wide_elements),
    )
}


def main() -> int:
    return run_checks("tests.gpu.large", "arrays beyond 2**31 elements or 2**32 bytes against torch", CHECKS)


if __name__ == "__main__":
    sys.exit(main())
