"""Random numbers by counter: the published vectors, independence of the schedule, moments, keys as runtime scalars."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.dtypes import u32
from polyfuse.errors import DTypeError, TraceError
from polyfuse.expr import Constant, constant
from polyfuse.frontends.numpy_like import philox, spec, specs_of_arrays, trace
from polyfuse.reference import evaluate
from tests.frontend.ops import run

# Random123's known answers (kat_vectors, "philox4x32 10"): counter, key, result.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "wanted"), KNOWN_ANSWERS)
def test_the_published_vectors(counter: str, key: str, wanted: str) -> None:
    def generate(*values: Any) -> Any:
        found = philox.philox(tuple(v.node for v in values[:4]), tuple(v[0].node for v in values[4:]))
        return [type(values[0])(values[0].state, word) for word in found]

    arrays = [np.array([word], np.uint32) for word in [*words(counter), *words(key)]]
    traced = trace(generate, specs_of_arrays(arrays))
    assert [int(word[0]) for word in evaluate(traced.program, arrays)] == words(wanted)


@pytest.mark.parametrize(("counter", "key", "wanted"), KNOWN_ANSWERS)
def test_constants_fold_to_the_same_words_where_they_fold(counter: str, key: str, wanted: str) -> None:
    found = philox.philox(
        tuple(constant(word, u32) for word in words(counter)), tuple(constant(word, u32) for word in words(key))
    )
    assert [word.value for word in found if isinstance(word, Constant)] == words(wanted)


def philox_by_hand(index: int, seed: int) -> list[int]:
    """The generator in Python integers, written from the paper."""
    c, k = [index & 0xFFFFFFFF, index >> 32, 0, 0], [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 3, 4), (0, 3), (4, 1, 2)])
@pytest.mark.parametrize("seed", [0, 7, -1, 2**63 + 5])
def test_the_counter_is_the_row_major_index(shape: tuple[int, ...], seed: int) -> None:
    bits = np.asarray(pf.random.bits(pf.random.key(seed), shape))
    assert bits.shape == shape
    assert bits.reshape(-1).tolist() == [philox_by_hand(i, seed % 2**64)[0] for i in range(bits.size)]


def test_symbolic_and_constant_sizes_draw_the_same_numbers() -> None:
    def draw(x: Any, key: Any) -> Any:
        return pf.random.bits(key, x.shape, np.uint64)

    x = np.zeros((6, 9))
    symbolic = trace(draw, [spec("f64[M, N]"), *specs_of_arrays([pf.random.key(5)])])
    (found,) = evaluate(symbolic.program, [x], [5])
    np.testing.assert_array_equal(found, pf.random.bits(pf.random.key(5), (6, 9), np.uint64))


def test_counters_beyond_32_bits() -> None:
    numbers = np.array([0, 1, 2**32 - 1, 2**32, 2**40 + 17, -1])
    low, high = run(lambda n: [type(n)(n.state, word) for word in philox.split(n.node)], numbers)
    assert low.tolist() == [n & 0xFFFFFFFF for n in numbers.tolist()]
    assert high.tolist() == [n >> 32 & 0xFFFFFFFF for n in numbers.tolist()]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_moments(dtype: str) -> None:
    key, n = pf.random.key(11), 20000
    u = pf.random.uniform(key, (n,), dtype)
    z = pf.random.normal(key, (n,), dtype)
    assert u.dtype == z.dtype == np.dtype(dtype)
    assert u.min() >= 0
    assert u.max() < 1
    u, z = u.astype(np.float64), z.astype(np.float64)
    assert abs(u.mean() - 1 / 2) < 0.01
    assert abs(u.var() - 1 / 12) < 0.003
    assert abs(z.mean()) < 0.03
    assert abs(z.var() - 1) < 0.04
    assert abs((z**3).mean()) < 0.1
    assert abs((z**4).mean() - 3) < 0.25
    assert abs(np.corrcoef(z[:-1], z[1:])[0, 1]) < 0.03


def test_uniform_between_bounds() -> None:
    u = pf.random.uniform(pf.random.key(2), (5000,), np.float64, -3.0, 5.0)
    assert -3 <= u.min() < -2.9
    assert 4.9 < u.max() <= 5


def test_integers_cover_their_range_evenly() -> None:
    drawn = pf.random.randint(pf.random.key(3), (60000,), -2, 4)
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == [-2, -1, 0, 1, 2, 3]
    assert counts.min() > 9500
    assert pf.random.randint(pf.random.key(3), (9,), 5, dtype=np.int8).dtype == np.int8


def test_bernoulli_takes_probabilities_by_element() -> None:
    p = np.array([0.0, 1.0, 0.3])
    drawn = pf.random.bernoulli(pf.random.key(4), np.broadcast_to(p, (8000, 3)).copy())
    assert drawn.dtype == np.bool_
    np.testing.assert_allclose(drawn.mean(0), p, atol=0.02)


def test_dropout_keeps_the_mean_and_the_dtype() -> None:
    x = np.ones((100, 90), np.float32)
    y = pf.random.dropout(pf.random.key(5), x, 0.25)
    assert y.dtype == x.dtype
    assert set(np.unique(y)) == {np.float32(0), np.float32(1) / np.float32(0.75)}
    assert abs(y.mean() - 1) < 0.03


def test_folded_keys_are_independent() -> None:
    key = pf.random.key(0)
    keys = [key, pf.random.fold_in(key, 0), pf.random.fold_in(key, 1), pf.random.fold_in(pf.random.fold_in(key, 0), 1)]
    assert len({k.seed for k in keys}) == 4
    inside = run(lambda seed: pf.random.fold_in(pf.random.key(seed), 1), 0)
    assert int(inside.seed) == keys[2].seed


def test_errors() -> None:
    key = pf.random.key(0)
    with pytest.raises(
        TraceError, match=r"random numbers need a key, not int\n.*  Make one with pf.random.key\(seed\)"
    ):
        pf.random.uniform(3, (2,))
    with pytest.raises(DTypeError, match="these random numbers are floats, not int32"):
        pf.random.normal(key, (2,), np.int32)
    with pytest.raises(DTypeError, match="random bits are unsigned integers, not int64"):
        pf.random.bits(key, (2,), np.int64)
    with pytest.raises(DTypeError, match="random integers are not float32"):
        pf.random.randint(key, (2,), 3, dtype=np.float32)
    with pytest.raises(TraceError, match="a seed is one integer"):
        pf.random.key(1.5)


def test_integers_from_one_number_on_and_below_another() -> None:
    """They were 64 random bits."""
    key = pf.random.key(0)
    for bounds in ((5, 2), (3, 3), (0,), (-1,)):
        with pytest.raises(pf.errors.ArgumentError, match="there is no integer"):
            pf.random.randint(key, (3,), *bounds)
