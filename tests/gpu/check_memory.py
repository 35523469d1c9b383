"""Loads and stores: every dtype and width, masks, gathers, run-time strides, shared memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from polyfuse import dtypes
from polyfuse.dtypes import DType
from tests.gpu.checks import TEXT, Check, check, random_values


def memory_checks() -> Iterator[Check]:
    for t in dtypes.ALL:
        x = random_values(t.name, 4096)
        for bits in (32, 64) if t.name in ("bf16", "f32", "i8", "f64") else (32,):
            copies, widths = [], [1, 2, 4, 8, 16]
            for w in widths:
                copies.append(f"store(y{w}, 16 * thread(), W{w}, load(x, 16 * thread(), W{w}))")
            tiles = "\n".join(f"W{w} = Tile((16,), (1,), vector={w})" for w in widths)
            yield check(
                f"copy {t} index {bits}",
                "\n".join(copies),
                {"x": x},
                {f"y{w}": x for w in widths},
                tiles,
                index_bits=bits,
            )
        yield from masked(t, x)
        yield kept_in_cache(t, x)
        yield from cut(t, x)
        yield from known(t, x)
        if t.itemsize >= 2:
            yield from across(t, x)
            yield from neighbours(t, x)
        yield from gathered(t, x)
        yield from through_shared(t, x)


def masked(t: DType, x: np.ndarray) -> Iterator[Check]:
    n, kept = 4096 - 37, np.arange(4096) < 4096 - 37
    one = np.ones((), t.numpy)
    whole = np.where(np.arange(4096) // 8 * 8 + 7 < n, x, one)  # by vectors of 8: all or nothing
    single = np.where(kept, x, one)
    stored = np.where(kept, x, np.zeros((), t.numpy))
    body = """
at = 16 * thread()
s = slots((16,), 0)
g = at + 8 * slots((2, 1), 0)
store(whole, at, PAIR, load(x, at, PAIR, mask=inside(n - 8 - g), other=1))
store(single, at, ROW, load(x, at, ROW, mask=at + s < n, other=1))
store(stored, at, ROW, load(x, at, ROW), mask=inside(n - 1 - at - s))
store(late, at, PAIR, load(x, at, PAIR), mask=g + 8 <= n)
"""
    late = np.where(np.arange(4096) // 8 * 8 + 8 <= n, x, np.zeros((), t.numpy))
    tiles = "ROW = Tile((16,), (1,), vector=8)\nPAIR = Tile((2, 8), (8, 1), vector=8)"
    expected = {"whole": whole, "single": single, "stored": stored, "late": late}
    yield check(f"masked {t}", body, {"x": x}, expected, tiles, sizes={"n": n})


def kept_in_cache(t: DType, x: np.ndarray) -> Check:
    """Loads with a policy, of every width, plain and masked."""
    n, one = 4096 - 37, np.ones((), t.numpy)
    body = """
x = evict_last(x)
at = 16 * thread()
s = slots((16,), 0)
store(y1, at, W1, load(x, at, W1))
store(y4, at, W4, load(x, at, W4))
store(y16, at, W16, load(x, at, W16))
store(some, at, W1, load(x, at, W1, mask=at + s < n, other=1))
"""
    tiles = "\n".join(f"W{w} = Tile((16,), (1,), vector={w})" for w in (1, 4, 16))
    expected = {"y1": x, "y4": x, "y16": x, "some": np.where(np.arange(4096) < n, x, one)}
    return check(f"kept in cache {t}", body, {"x": x}, expected, tiles, sizes={"n": n})


def cut(t: DType, x: np.ndarray) -> Iterator[Check]:
    """31 rows of 29 elements, the last one up to the end of the array, dealt to 8 lanes of 8 each from where memory has
    vectors."""
    rows, length = 31, 29
    held = x[: rows * length]
    row, place = np.arange(256)[:, None] // 8, 8 * (np.arange(256)[:, None] % 8) + np.arange(8)
    element = place - length * row % 8
    inside = (element >= 0) & (element < length) & (row < rows)
    taken = held[np.where(inside, row * length + element, 0)]
    one, zero = np.ones((), t.numpy), np.zeros((), t.numpy)
    body = """
row = thread() // 8
shift = 29 * row % 8
place = 8 * (thread() % 8)
low = slots((1, 8), 0) + shift - place
high = slots((1, 8), 0) + 29 + shift - place
own = slots((1, 8), 0) + row < 31
found = load_cut(x, 29 * row + place - shift, V8, low, high, end=899, mask=own, other=1)
store(loaded, 8 * thread(), V8, found)
store(chosen, 8 * thread(), V8, where_cut(low, high, found, 0, mask=own))
store_cut(stored, 29 * row + place - shift, V8, found, low, high, mask=own)
"""
    expected = {
        "loaded": np.where(inside, taken, one).ravel(),
        "chosen": np.where(inside, taken, zero).ravel(),
        "stored": held,
    }
    yield check(f"cut {t}", body, {"x": held}, expected, "V8 = Tile((1, 8), (0, 1), vector=8)")


def known(t: DType, x: np.ndarray) -> Iterator[Check]:
    """19 rows of 45 elements beside one that all share, dealt to 4 lanes of two vectors: the first one alone may begin
    in front of a row, the second one alone end behind it."""
    rows, length = 19, 45
    row, place = np.arange(256)[:, None, None] // 4, 8 * (np.arange(256)[:, None, None] % 4) + np.arange(8)
    element = place + 32 * np.arange(2)[:, None] - length * row % 8
    inside = (element >= 0) & (element < length) & (row < rows)
    one, zero = np.ones((), t.numpy), np.zeros((), t.numpy)
    body = """
row = thread() // 4
shift = 45 * row % 8
place = 8 * (thread() % 4) + 32 * slots((2, 8), 0)
low = at_most(shift - place, 0, 1, 2, 0)
end = 45 + shift - place
high = at_least(end, 0, 0, 1, 8)
own = 0 * slots((2, 8), 0) + row < 19
found = load_cut(x, 45 * row + place - shift, V8, low, high, end=855, mask=own, other=1)
store(loaded, 16 * thread(), W8, found)
store_cut(stored, 45 * row + place - shift, V8, found, low, high, mask=own)
"""
    taken = x[np.where(inside, row * length + element, 0)]
    expected = {"loaded": np.where(inside, taken, one).ravel(), "stored": x[: rows * length]}
    if t.is_float and t.itemsize == 2:
        body += """
shared_row = load_across(g, place - shift, V8, low, at_least(end, 0, 0, 1, 16), end=45, mask=own, other=None)
store(beside, 16 * thread(), W8, where_cut(low, high, shared_row, 0, mask=own))
"""
        expected["beside"] = np.where(inside, x[np.where(inside, element, 0)], zero).ravel()
    given = {"x": x[: rows * length], "g": x[:length]} if "beside" in expected else {"x": x[: rows * length]}
    tiles = "V8 = Tile((2, 8), (0, 1), vector=8)\nW8 = Tile((2, 8), (8, 1), vector=8)"
    yield check(f"known {t}", body, given, expected, tiles)


def across(t: DType, x: np.ndarray) -> Iterator[Check]:
    """Every beginning of a vector in an array of 893 elements, from before its first one to behind its last one."""
    length, count, width = 893, 905, 16 // t.itemsize
    start = np.arange(count)[:, None] - 8 + np.arange(width)
    inside = (start >= 0) & (start < length)
    one = np.ones((), t.numpy)
    wanted = np.where(inside, x[np.where(inside, start, 0)], one)
    body = f"""
begin = slots((4, {width}), 0) + 4 * thread() - 8
low, high = 0 - begin, 893 - begin
store(loaded, {4 * width} * thread(), VS, load_across(x, begin, V1, low, high, end=893, mask=begin < 897, other=1))
"""
    tiles = _vectors(width)
    rows = np.full((1024, width), one)
    rows[:count] = wanted
    yield check(f"across {t}", body, {"x": x[:length]}, {"loaded": rows.ravel()}, tiles)


def neighbours(t: DType, x: np.ndarray) -> Iterator[Check]:
    """The same of three vectors each, the second one element on and the third one more than a vector."""
    length, count, width = 893, 905, 16 // t.itemsize
    steps, one = (0, 1, width + 1), np.ones((), t.numpy)
    expected = {}
    for name, step in zip("abc", steps, strict=True):
        start = np.arange(count)[:, None] - 8 + step + np.arange(width)
        inside = (start >= 0) & (start < length)
        rows = np.full((1024, width), one)
        rows[:count] = np.where(inside, x[np.where(inside, start, 0)], one)
        expected[name] = rows.ravel()
    lows, highs = (", ".join(f"{end - step} - begin" for step in steps) for end in (0, length))
    body = f"""
begin = slots((4, {width}), 0) + 4 * thread() - 8
i, j, k = load_neighbours(x, begin, V1, {steps}, ({lows}), ({highs}), end=893, mask=begin < 897, other=1)
store(a, {4 * width} * thread(), VS, i)
store(b, {4 * width} * thread(), VS, j)
store(c, {4 * width} * thread(), VS, k)
"""
    yield check(f"neighbours {t}", body, {"x": x[:length]}, expected, _vectors(width))


def _vectors(width: int) -> str:
    shape = f"(4, {width})"
    return f"V1 = Tile({shape}, (0, 1), vector={width})\nVS = Tile({shape}, ({width}, 1), vector={width})"


def gathered(t: DType, x: np.ndarray) -> Iterator[Check]:
    rng = np.random.default_rng(3)
    index = rng.integers(0, 1024, 1024).astype(np.int32)
    wide = (rng.permutation(1024) * 4).astype(np.int64)
    body = """
i = load(index, 4 * thread(), LINE)
store(a, 4 * thread(), LINE, load(x, i, ANY))
j = load(wide, 4 * thread(), LINE)
store(b, 16 * thread(), ROWS, load(x, j, GROUP))
store(c, j, GROUP, load(x, 16 * thread(), ROWS))
store(d, 4 * thread(), LINE, load(advance(x, 256), 1 + thread(), STRIDED, (m, n)))
"""
    tiles = """
LINE, ANY = Tile((4, 1), (1, 0)), Tile((4, 1), (0, 0))
GROUP, ROWS = Tile((4, 4), (0, 1), vector=4), Tile((4, 4), (4, 1), vector=4)
STRIDED = Tile((2, 2), (2 * Size("m"), Size("n")))
"""
    tiles = tiles.replace("STRIDED = Tile((2, 2), (2 * Size", "STRIDED = Tile((2, 2), (2 * Size")
    c = np.zeros_like(x)
    c.reshape(-1, 4)[wide // 4] = x.reshape(-1, 4)
    start = 257 + np.arange(256)[:, None, None]
    m, n = 100, 9
    d = x[(start + 2 * m * np.arange(2)[:, None] + n * np.arange(2)).reshape(-1)]
    expected = {"a": x[index], "b": x.reshape(-1, 4)[wide // 4].reshape(-1), "c": c, "d": d}
    body = body.replace("store(d, 4 * thread(), LINE,", "store(d, 4 * thread(), FOUR,")
    tiles += "FOUR = Tile((2, 2), (2, 1))\n"
    yield check(f"gather {t}", body, {"x": x, "index": index, "wide": wide}, expected, tiles, sizes={"m": m, "n": n})


def through_shared(t: DType, x: np.ndarray) -> Iterator[Check]:
    body = f"""
s = shared({TEXT[t.name]}, 4096)
store(s, 16 * thread(), ROW, load(x, 16 * thread(), ROW))
barrier()
store(y, thread(), COLUMN, load(s, thread(), COLUMN, mask=thread() < 255, other=0), mask=thread() < 255)
"""
    tiles = "ROW, COLUMN = Tile((16,), (1,), vector=16), Tile((16,), (256,))"
    y = x.copy()
    y[255::256] = np.zeros((), t.numpy)
    yield check(f"shared {t}", body, {"x": x}, {"y": y}, tiles)
