"""``x[mask]`` of a mask of unknown values: what is computed of it against NumPy, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import DTypeError, IndexingError, PolyfuseError, ShapeError
from tests.frontend.ops import assert_same, run

RANDOM = np.random.default_rng(7)
ARRAYS = {
    "x": RANDOM.standard_normal((5, 4)),
    "y": RANDOM.standard_normal((5, 4)).astype(np.float32),
    "k": RANDOM.integers(-9, 9, (5, 4)),
    "u": RANDOM.integers(0, 9, (5, 4)).astype(np.uint8),
    "v": RANDOM.standard_normal(4),
    "q": RANDOM.standard_normal((4, 4)),
    "z": RANDOM.standard_normal(4),
    "t": RANDOM.standard_normal((3, 5, 4)),
    "g": RANDOM.standard_normal(5) > 0,
}

TABLE = np.arange(4.0) ** 2

SAME = """
x[x > 0].sum(); x[x > 0].mean(); x[x > 0].prod(); x[x > 0].var(); x[x > 0].std(ddof=1); x[x > 0].min(); x[x < 0].max()
(x[x > 0] > 1).any(); (x[x > 0] > 0).all(); (x[x > 0] > 0.5).min(); (x[x > 0] > 0.5).max(); x[x > 9].sum()
k[k > 0].max(); k[x > 0].min(); u[u > 3].min(); u[u > 3].max(); k[k > 0].sum(); u[u > 3].sum(); y[y > 0].sum()
y[y > 0].mean(); y[x > 0].max(); u[u > 3].mean(); (k[k > 0] == 3).any(); y[y > 0].sum(dtype=np.float64)
x[m].max(initial=5); x[m].min(initial=-7); x[m].sum(initial=2.0); x[m].sum(keepdims=True)
x[m].max(axis=0, keepdims=True)
np.sum(x[x > 0]); np.mean(x[x > 0]); np.std(x[x > 0]); np.var(x[x > 0]); np.prod(x[x > 0]); np.max(x[x < 0])
np.amin(x[x > 0]); np.amax(k[k < 3]); np.min(k[k < 3]); np.any(x[x > 0] > 1); np.all(x[x > 0] > 1)
np.add.reduce(x[x > 0]); np.multiply.reduce(x[x > 0]); np.maximum.reduce(k[m]); np.minimum.reduce(u[m])
np.logical_or.reduce(x[m] > 0); np.add.reduce(x[m], keepdims=True); np.logical_and.reduce(x[m] > 0)
np.size(x[x > 0]); np.shape(x[x > 0])[0]; np.ndim(x[x > 0]); x[x > 0].size; x[x > 0].ndim; x[x > 0].shape[0]
x[r].ndim; x[r].shape[0]; x[x > 0].sum(axis=0); x[r].sum(keepdims=True); x[r].sum(axis=0, keepdims=True)
x[r].sum(); x[r].sum(axis=0); x[r].mean(0); x[r].max(0); k[r].min(axis=0); (x[r] * v).sum(axis=0)
(v - x[r]).sum(axis=0)
np.sum(x[r], axis=0); np.max(x[r], 0); np.add.reduce(x[r]); x[r].std(0)
(x[x > 0] + x[x > 0]).sum(); (x[m] * y[m]).sum(); (x[m] - k[m]).max(); np.maximum(x[m], y[m]).sum(); (x[m] > k[m]).any()
(2 / x[x > 0]).sum(); (x[x > 0] ** 2 + 1).sum(); (-x[x > 0]).min(); abs(x[x < 0]).max(); np.exp(x[x < 0]).mean()
(x.mean() * x[m]).sum(); (x[m] - x[m].mean()).std(); (x.max() > x[m]).any(); (np.float64(2) * y[m]).sum(dtype=float)
np.divmod(k[m], 3)[0].sum(); np.divmod(k[m], 3)[1].max(); np.modf(x[m])[1].sum(); np.hypot(x[m], 2.0).sum()
x[x > 0].astype(np.float32).sum(); x[m].copy().sum(); k[m].astype(bool).any()
np.ones(2) * (x[x > 0].dtype == np.float64)
x[:, c].sum(); x[:, c].sum(axis=1); x[:, c].mean(1); x[:, c].max(axis=1, keepdims=True); x[1:3, c].ndim; x[..., c].max()
x[r, 0].sum(); x[r, 1:3].sum(axis=0); (x[r, 1:3] * v[:2]).sum(0); x[:, c].sum(keepdims=True); x[:, c].shape[1]
t[:, g].sum(); t[:, g, 0].sum(axis=1); t[:, g, 1:].sum(axis=1); t[r[:3], :, 0].sum(axis=0); (t[:, g] * v).sum(axis=1)
t[:, :, c].sum(axis=2); t[:, g[:, None] & (v > 0)].sum(axis=1); (t[:, g] + t[:, g]).sum(); t[:, g].shape[2]
t[:, r, 0].shape[1]
np.clip(x[m], 0.5, 1).sum(); x[m].clip(max=0.2).sum(); np.where(x[m] > 1, x[m], 0).sum(); np.round(x[m], 1).min()
x[m].round(1).max(); np.nan_to_num(x[m]).mean(); np.isclose(x[m], x[m]).all()
x[m] @ y[m]; np.dot(k[m], u[m]); np.vdot(x[m], x[m]); np.inner(y[m], y[m]); np.linalg.norm(x[m]); np.linalg.norm(k[m])
np.count_nonzero(x[m] > 0); np.ptp(x[m]); np.ptp(k[m]); np.average(x[m]); np.average(x[m], weights=abs(y[m]))
np.nansum(np.where(x[m] > 0, x[m], np.nan)); np.nanmean(np.where(y[m] > 0, y[m], np.nan))
np.average(k[m], weights=y[m] ** 2); np.nansum(k[m]); np.nanmean(k[m]); np.allclose(x[m], x[m] + 1e-9)
np.allclose(0.5, x[m]); np.allclose(k[m] * 0, u[m]); np.allclose(x[m] + 1, x[m], rtol=9)
x[m].ravel().sum(); x[m].reshape(-1).mean(); np.ravel(x[m]).max(); x[m].flatten().min(); x[r] .mean(0) @ v
v[u[m] % 4].sum(); (v[u[m] % 4] * x[m]).mean(); q[u[m] % 4, k[m] % 4].max(); q[-1 - k[m] % 4].sum(axis=0)
x[np.where(r)[0] * 0 + 1].sum(); x[np.where(r)[0] - 1].sum(); q[u[m] % 4, 0].sum(); t[:, k[m] % 5, 0].sum(axis=1)
t[0, u[m] % 5].max(axis=0); t[1:, :, k[m] % 4].sum(2); x[k[m] % 5, x[0].argmax()].min(); t[..., u[m] % 4].max()
v[np.where(m)[1]].sum(); x[np.where(m)[0]].sum(axis=0); x[:, np.where(m)[1]].max(axis=1)
(v[m.nonzero()[1]] * x[m]).sum()
np.take(v, np.where(m)[1]).max(); v.take(np.where(m)[1]).min(); np.take(x, np.flatnonzero(m)).sum()
np.take(x, np.where(c)[0], axis=1).sum(1); np.take(x, np.where(r)[0], 0).mean(axis=0); TABLE[np.where(m)[1]].sum()
np.take(TABLE, indices=np.where(m)[1]).mean(); x[np.where(r[:-1])[0]].sum(); x[np.where(r[1:])[0] + 1, 0].max()
x[np.where(m[:3, 1:])].sum(); t[:, np.where(c[:3])[0]].sum(axis=1)
x[m].sum() + k[m].sum(); x - x[m].mean(); np.where(m, x, x[m].min()); x[~m].sum() + x[m].sum(); x[m & (y > 0)].sum()
"""

REFUSED = """
x[m] + x[y > 1]; x[m] + v; np.sort(x[m]); np.cumsum(x[m]); x[m].reshape(2, -1); x[m].sum(axis=1); x[m].cumsum()
np.add.accumulate(x[m]); x[m][0]; len(x[m]); list(x[m]); bool(x[m]); x[r].size; np.asarray(x[m]); x[m].sum(where=True)
x[m].T.sum(); x[m].flat; np.concatenate([x[m], v]); x[m] @ x[x > 0]; x[m] @ v; x[r] @ v; np.median(x[r])
v[x[m] > 0]; v[u[m] % 4] + x; q[u[m] % 4, u[x > 0] % 4]; q[u[m] % 4, 0]; np.average(x[r], weights=v)
np.ptp(x[m], axis=1); np.average(x[m], weights=y); (q[z > 0] + z[z > 0]).sum()
x[:, c].sum(axis=0); x[:, c] + v; (x[:, c] + x[r, 0]).sum(); x[:, c][0]; (q[:, z > 0] + q[z > 0]).sum(); x[r, 0][1]
np.add(x[m], 1, where=False)
np.add(x[m], 1, out=np.zeros(3)); np.subtract.reduce(x[m]); np.modf(x[m], out=(x[m], x[m])); np.matmul(q[z > 0], q)
"""


def listed(text: str) -> list[str]:
    return [entry.strip() for line in text.strip().splitlines() for entry in line.split(";")]


def computed(expression: str, runner: Any) -> Any:
    code = compile(expression, "<expression>", "eval")

    def function(*arrays: Any) -> Any:
        names = dict(zip(ARRAYS, arrays, strict=True))
        masks = {"m": names["x"] < 0.5, "r": names["x"][:, 0] > 0, "c": names["x"][0] > 0}
        result = eval(code, {"np": np, "TABLE": TABLE, **masks, **names})
        return np.ones(2) * result if any(word in expression for word in ("size", "shape", "ndim")) else result

    return runner(function, *ARRAYS.values())


@pytest.mark.parametrize("expression", listed(SAME))
def test_of_a_selection(expression: str) -> None:
    assert_same(computed(expression, run), computed(expression, lambda function, *arrays: function(*arrays)))


@pytest.mark.parametrize("expression", listed(REFUSED))
def test_what_needs_the_number_of_elements_is_refused(expression: str) -> None:
    with pytest.raises(IndexingError, match=r"^x\[mask\] has a shape that depends on the values") as refusal:
        computed(expression, run)
    assert "Keep the shape: np.where(mask, x, fill)" in str(refusal.value)


def test_an_attribute_that_arrays_do_not_have() -> None:
    with pytest.raises(AttributeError, match=r"x\[mask\] has no attribute 'total'"):
        computed("x[m].total()", run)


def test_a_reduction_of_a_selection_of_nothing_that_needs_one_element() -> None:
    """NumPy raises; a plan cannot know and gives what is neutral."""
    with pytest.raises(ValueError, match="zero-size array"):
        computed("x[x > 9].max()", lambda function, *arrays: function(*arrays))
    assert computed("x[x > 9].max()", run) == -np.inf
    assert computed("k[k > 99].min()", run) == np.iinfo(np.int64).max


def a_write_to_the_array(x: Any) -> Any:
    a = x.copy()
    selected = a[a > 0]
    a[...] = 0
    return selected.sum()


def a_write_to_the_mask(x: Any) -> Any:
    mask = x > 0
    selected = x[mask]
    mask[...] = False
    return selected.sum(), x[mask].sum()


def a_write_to_the_selection(x: Any) -> Any:
    mask = x > 0
    selected = x[mask]
    held, copied = selected, selected.copy()
    selected += 1
    selected *= x[mask]
    return held.sum(), copied.sum(), x[mask].sum()


def a_write_back(x: Any) -> Any:
    a = x.copy()
    selected = a[x > 0]
    selected /= 2
    a[x > 0] = selected
    a[a < 0] *= 3
    return a


def a_write_of_wider_values(x: Any) -> Any:
    single = x.astype(np.float32)
    selected = single[x > 0]
    selected += x[x > 0]
    return selected.max(), selected.dtype == np.float32 and single


@pytest.mark.parametrize(
    "function",
    [a_write_to_the_array, a_write_to_the_mask, a_write_to_the_selection, a_write_back, a_write_of_wider_values],
)
def test_a_selection_is_a_copy(function: Any) -> None:
    assert_same(run(function, ARRAYS["x"]), function(ARRAYS["x"]))


def positions_as_an_index(x: Any) -> Any:
    a, mask = x.copy(), x > 0
    rows, columns = np.where(mask)
    a[rows, columns] += x[rows, columns] * 2
    a[np.nonzero(a < -1)] = 9
    a[(a > 8).nonzero()] = 8
    a.flat[np.flatnonzero(mask)] -= 1
    np.add.at(a, np.where(mask), 0.5)
    mask[...] = False
    a[rows, columns] *= 3
    return a


def positions_of_rows(x: Any) -> Any:
    a, (rows,) = np.zeros(x.shape), np.nonzero(x[:, 0])
    first, (columns,) = x[0].astype(int), np.where(x[0] < 0.5)
    a[rows] = 1
    a[rows, 1] = x[rows, 2]
    a[1:, columns] -= 2
    first[columns] = 5
    return a, x[rows].sum(axis=0), x[:, columns].max(axis=1), first


def positions_as_numbers(x: Any) -> Any:
    rows, columns = np.nonzero(x)
    above = np.where(x[:, 1] != 0)[0]
    numbers = rows.max(), (rows * columns).sum(), columns.mean(), above.min() + x
    return *numbers, np.ones(2) * rows.size, above.dtype == int


def positions_that_choose(x: Any) -> Any:
    a, b, means, at = x.copy(), x.copy(), x.mean(axis=0), np.where(x > 0)
    a[at] = np.take(means, at[1])
    b[x < 0] = means[np.nonzero(x < 0)[1]]
    rows, columns = np.nonzero(x > 0.2)
    b[rows, columns] += a[rows - 1, columns]
    return a, b


def positions_in_front(x: Any) -> Any:
    a, b, y = x.copy(), x[:, 1].copy(), x.ravel()
    crossed, peaks = np.where(np.diff(x[:, 0] > 0))[0], np.flatnonzero((y[1:-1] > y[:-2]) & (y[1:-1] > y[2:])) + 1
    a[crossed], a[np.where(x[1:, :2] > 0)], a[1:, np.where(x[0, :-1] > 0)[0]] = 0, 1, 2
    b[crossed] += x[crossed + 1, 2] - x[crossed, 2]
    return a, b, y[peaks].sum(), (y[peaks] - y[peaks - 1]).min()


def positions_where_functions_are(x: Any) -> Any:
    a, b, k = x.copy(), x[:, 1].copy(), np.arange(len(x))
    above, rows = np.where(x > 0), np.flatnonzero(x[:-1, 0] > 0)
    np.subtract.at(a, above, x[above] / 2)
    np.negative.at(a, above)
    np.add.at(b, rows, 0.5), np.hypot.at(b, rows, 3)
    np.add.at(k, rows, x[rows, 1] * 9)
    return a, b, k


def moved_positions(x: Any) -> Any:
    (rows,) = np.where(x[:-1, 0] > 0)
    rows += 1
    return x[rows].sum()


POSITIONS = [positions_as_an_index, positions_of_rows, positions_as_numbers, positions_that_choose, positions_in_front]
POSITIONS += [positions_where_functions_are, moved_positions]


@pytest.mark.parametrize("function", POSITIONS)
def test_positions_of_a_mask_stand_for_it(function: Any) -> None:
    x = np.where(np.abs(ARRAYS["x"]) < 0.3, 0, ARRAYS["x"])
    assert_same(run(function, x), function(x))


NOT_THE_MASK = """
np.where(m); len(np.where(r)[0]) * x; v[np.where(m)[1]]; np.take(v, np.where(m)[1])
np.take(x, np.where(m)[0], mode="clip")
np.where(r)[0][0]; np.concatenate([np.flatnonzero(m), k[0]]); list(np.nonzero(c)[0]); t[0, :, np.where(m)[1]].sum(0)
t[np.where(r[:3])[0], :, np.where(r[:3])[0]].sum(); np.where(x.sum()); np.where(m, x); x[:3][np.where(r)[0]].sum()
x[np.where(m)[0], np.where(x > 0)[1]].sum(); x[np.where(m)[0], k[0]].sum(); np.add.at(x * 1, np.where(m)[1], 1)
"""


@pytest.mark.parametrize("expression", listed(NOT_THE_MASK))
def test_positions_that_are_no_mask_are_refused(expression: str) -> None:
    with pytest.raises(PolyfuseError) as refusal:
        computed(expression, run)
    assert refusal.value.advice


def test_integers_do_not_become_floats_in_place() -> None:
    def function(k: Any) -> Any:
        selected = k[k > 0]
        selected += 0.5
        return selected.sum()

    with pytest.raises(TypeError, match="Cannot cast"):
        function(ARRAYS["k"])
    with pytest.raises(DTypeError, match="float64 is not cast"):
        run(function, ARRAYS["k"])


def test_assignment_under_another_mask_is_refused() -> None:
    def function(x: Any, y: Any) -> Any:
        a = x.copy()
        a[x > 0] = y[y > 0]
        return a

    with pytest.raises(PolyfuseError, match="mask"):
        run(function, ARRAYS["x"], ARRAYS["x"][::-1])


def writes_beside_other_indices(x: Any, t: Any, g: Any, v: Any) -> Any:
    a, b, mask = x.copy(), t.copy(), x[:, 0] > 0
    a[:, x[0] > 0] *= 2
    a[mask, 0] += 1
    a[mask, 1:3] -= v[:2]
    a[..., x[1] < 0] = a[..., x[1] < 0] / 3
    b[:, g] *= v
    b[:, g, 0] **= 2
    b[1:, g, 1] = 7
    return a, b


def test_writes_under_a_mask_beside_other_indices() -> None:
    arrays = [ARRAYS[name] for name in "xtgv"]
    assert_same(run(writes_beside_other_indices, *arrays), writes_beside_other_indices(*arrays))
    for backend in ("interpreter", "numba_cpu"):
        assert_same(pf.jit(backend=backend)(writes_beside_other_indices)(*arrays), writes_beside_other_indices(*arrays))


def test_one_value_per_chosen_column_is_refused() -> None:
    """The values belong to the columns that the mask chooses, not to the rows in front of them."""

    def written(q: Any, z: Any) -> Any:
        a = q.copy()
        a[:, z > 0] = z
        return a

    for function in (written, lambda q, z: q.at[:, z > 0].add(z)):
        with pytest.raises(ShapeError, match="one value per element that the mask selects"):
            run(function, ARRAYS["q"], ARRAYS["z"])


def of_order(x: Any, m: Any) -> Any:
    chosen = x[m]
    spread = np.median(np.abs(chosen - np.median(chosen)))
    middle = np.median(chosen), np.median(chosen, axis=0)
    return *middle, np.percentile(chosen, 30), np.quantile(chosen, [0.1, 0.5]), spread, np.ptp(chosen, axis=0)


def of_numbers(x: Any, m: Any) -> Any:
    return np.nanmedian(x[m]), np.nanpercentile(x[m], [25, 75]), np.quantile(x[m], 0.3, method="lower")


def of_places(x: Any, m: Any) -> Any:
    return x[m].argmax(), np.argmin(x[m]), x[m].argmax(axis=0)


@pytest.mark.parametrize("function", [of_order, of_numbers, of_places])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u1"])
@pytest.mark.parametrize("nan", [False, True])
def test_quantiles_and_places_of_what_a_mask_chooses(function: Any, dtype: str, nan: bool) -> None:
    rng = np.random.default_rng(5)
    for shape in ((11,), (5, 6), (1,)):
        x = rng.integers(0, 9, shape).astype(dtype)
        mask = rng.random(shape) > 0.3
        mask.flat[0] = True
        if nan and x.dtype.kind == "f" and x.size > 1:
            x.flat[x.size // 2] = np.nan
        assert_same(run(function, x, mask), function(x, mask))


def test_the_place_is_that_of_a_chosen_element() -> None:
    """Others may be as great as the greatest that is chosen."""
    x, mask = np.array([-np.inf, 1.0, -np.inf, -np.inf]), np.array([False, False, True, True])
    assert run(lambda x, m: x[m].argmax(), x, mask) == 0
    assert run(lambda x, m: x[m].argmin(), np.array([2.0, 0, 3, 2]), np.array([True, False, True, True])) == 0


def test_the_length_of_a_selection_is_the_count_of_its_mask() -> None:
    with pytest.raises(PolyfuseError, match=r"np.count_nonzero\(mask\) for len"):
        run(lambda x: len(x[x > 0]), np.ones(3))
    with pytest.raises(PolyfuseError, match="mask"):
        run(lambda x: np.sort(x[x > 0]), np.ones(3))


@pytest.mark.parametrize("method", ["lower", "higher", "nearest", "linear"])
@pytest.mark.parametrize("count", [6, 11, 16, 21])
def test_places_between_halves_are_those_of_numpy(method: Any, count: int) -> None:
    """0.4 as a half, five times, is less than two: the element before was taken."""
    x, mask = np.arange(count, dtype="f2"), np.ones(count, dtype=bool)
    for q in (0.1, 0.3, 0.4, 0.7, 0.9):
        chosen = run(lambda x, m, q=q: np.quantile(x[m], q, method=method), x, mask)
        numbers = run(lambda x, q=q: np.nanquantile(x, q, method=method), x)
        for found in (chosen, numbers):
            assert found.dtype == np.float16
            np.testing.assert_allclose(found, np.quantile(x, q, method=method), atol=0.02)
