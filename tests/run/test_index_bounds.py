"""Data-dependent indices never touch memory outside their array."""

from __future__ import annotations

import ctypes
import linecache
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import IndexFault
from polyfuse.run import bound, dispatch
from polyfuse.run.faults import PAGE, Board


@pytest.mark.parametrize("count", [3, 5000])
@pytest.mark.parametrize("wrong", [10, -11, 2**40, -(2**40)])
def test_an_index_out_of_bounds_raises_on_the_host(count: int, wrong: int) -> None:
    function = pf.jit(lambda x, i: x[i] * 2)
    x, i = np.arange(10, dtype=np.float32), np.zeros(count, np.int64)
    i[count // 2] = wrong
    with pytest.raises(IndexFault, match="out of bounds"):
        function(x, i)
    i[count // 2] = -1
    assert np.array_equal(function(x, i), x[i] * 2)  # the flag was lowered again


def test_computed_indices_are_checked_where_elements_exist_only() -> None:
    function = pf.jit(lambda x, i: x[i + 9] + 1)  # padded lanes would read at 9 too, real ones must be at 0
    x = np.arange(10, dtype=np.float32)
    assert np.array_equal(function(x, np.zeros(37, np.int64)), np.full(37, 10, np.float32))
    with pytest.raises(IndexFault):
        function(x, np.ones(37, np.int64))


@pytest.mark.parametrize("backend", ["numba_cpu", "interpreter"])
def test_an_index_may_be_the_position_of_an_extreme(backend: str) -> None:
    """The second component of the reduction's state: the first, the extreme itself, was read once."""

    def function(x, i):
        return x[i.reshape(-1, 4).argmax(axis=1)] + 1

    x, i = np.arange(256, dtype=np.float32), np.random.default_rng(0).integers(-(2**60), 2**60, 256)
    assert np.array_equal(pf.jit(function, backend=backend)(x, i), function(x, i))


def test_clipping_is_numpys() -> None:
    function = pf.jit(lambda x, i: np.take(x, i, mode="clip"))
    x, i = np.arange(10.0), np.array([-100, -1, 3, 12])
    assert np.array_equal(function(x, i), np.take(x, i, mode="clip"))


def test_the_cuda_schedule_moves_what_is_out_of_bounds() -> None:
    source = pf.jit(lambda x, i: x[i]).plan(pf.spec("f32[N]"), pf.spec("i64[K]"), target="h200").source()
    lines = [line.strip() for line in source.splitlines()]
    moved = [line for line in lines if line.startswith("x_at0 = minimum(maximum(")]
    loads = [line for line in lines if line.startswith("x = load(x_in")]
    assert len(moved) == len(loads) and all("x_at0" in line for line in loads)


@pytest.mark.parametrize("bounds", ["raise", "clip"])
def test_nothing_can_be_read_from_an_empty_array(bounds: str) -> None:
    function, x = pf.jit(lambda x, i: x[i], bounds=bounds), np.zeros((0, 3), np.float32)
    assert function(x, np.zeros(0, np.int64)).shape == (0, 3)
    for index in (0, -1):
        with pytest.raises(IndexFault):
            function(x, np.full(5, index))


@pytest.mark.parametrize("mode", ["clip", "wrap"])
@pytest.mark.parametrize("backend", ["numba_cpu", "interpreter"])
def test_no_mode_finds_an_element_of_an_empty_axis(mode: str, backend: str) -> None:
    function = pf.jit(lambda x, i: np.take(x[2:], i, axis=0, mode=mode), backend=backend)
    i, x = np.array([0, 5]), np.arange(12.0).reshape(4, 3)
    assert np.array_equal(function(x, i), np.take(x[2:], i, axis=0, mode=mode))
    for rows in (2, 1, 0):
        with pytest.raises(IndexError):  # while tracing, where the size is known
            function(x[:rows], i)
        assert function(x[:rows], i[:0]).shape == (0, 3)


def test_take_is_checked_where_the_access_says_so() -> None:
    function, x = pf.jit(lambda x, i: pf.take(x, i, bounds="raise")), np.arange(4.0)
    assert np.array_equal(function(x, np.array([1, -1])), [1, 3])
    with pytest.raises(IndexFault):
        function(x, np.array([1, 4]))


def test_nothing_is_written_into_an_empty_axis() -> None:
    def function(x, i):
        y = x.copy()
        np.add.at(y[2:], i, 1)
        return y

    jitted, i, x = pf.jit(function), np.array([0, 1, 0]), np.zeros((4, 3))
    assert np.array_equal(jitted(x, i), function(x, i))
    for rows in (2, 1, 0):
        with pytest.raises(IndexError, match=r"index is out of bounds for axis 0 of size 0\n.*line \d+\n *np.add.at"):
            jitted(x[:rows], i)
        assert np.array_equal(jitted(x[:rows], i[:0]), x[:rows])


def looked_up(x, i):
    y = x[i] * 2
    return y


BACKENDS = {"numba_cpu": {}, "interpreter": {"backend": "interpreter", "target": "h200"}}


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_error_names_the_line(backend: str) -> None:
    x, i = np.arange(10, dtype=np.float32), np.array([1, 10, 3])
    with pytest.raises(IndexFault) as caught:
        pf.jit(looked_up, **BACKENDS[backend])(x, i)
    source = caught.value.source
    assert source is not None and source.file == __file__ and source.text.strip() == "y = x[i] * 2"
    assert "an index into x is out of bounds where" in str(caught.value)
    i[1] = -10
    assert np.array_equal(pf.jit(looked_up, **BACKENDS[backend])(x, i), looked_up(x, i))


WRITES = ["np.add.at(y, i, 1)", "y[i] += x", "y[1:][i] = 2", "y[i, 0] = 3"]


@pytest.mark.parametrize("line", WRITES)
def test_the_error_names_the_line_that_writes(line: str) -> None:
    space: dict[str, Any] = {"np": np}
    source = f"def function(x, i):\n    y = x * 2\n    {line}\n    z = y + 1\n    return z\n"
    file = f"<write {line}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), space)
    with pytest.raises(IndexFault) as caught:
        pf.jit(space["function"])(np.zeros((3, 3)), np.array([0, 1, 7]))
    assert caught.value.source is not None and caught.value.source.text.strip() == line


@pytest.mark.parametrize("backend", BACKENDS)
def test_of_two_gathers_the_wrong_one_is_named(backend: str) -> None:
    def function(x, y, i, j):
        a = x[i]
        b = y[j]
        return a + b

    jitted = pf.jit(function, **BACKENDS[backend])
    x, y = np.arange(10, dtype=np.float32), np.arange(5, dtype=np.float32)
    good, bad = np.array([0, 4]), np.array([0, 5])
    assert np.array_equal(jitted(x, y, bad, good), function(x, y, bad, good))
    with pytest.raises(IndexFault, match="an index into y .* where b is") as caught:
        jitted(x, y, bad, bad)
    assert caught.value.source is not None and caught.value.source.text.strip() == "b = y[j]"
    with pytest.raises(IndexFault, match="an index into x .* where a is"):
        jitted(x, y, np.array([0, 10]), good)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_option_clips(backend: str) -> None:
    jitted = pf.jit(looked_up, bounds="clip", **BACKENDS[backend])
    x, i = np.arange(10, dtype=np.float32), np.array([3, 10, -1, -11, 2**40])
    assert np.array_equal(jitted(x, i), 2 * np.array([3, 9, 9, 0, 9], np.float32))


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_option_assumes(backend: str) -> None:
    jitted = pf.jit(looked_up, bounds="assume", **BACKENDS[backend])
    x, i = np.arange(10, dtype=np.float32), np.array([3, 9, -1, -10, 0])
    assert np.array_equal(jitted(x, i), looked_up(x, i))


def test_scatters_follow_the_option() -> None:
    def function(x, i, v):
        return x.at[i].add(v) if hasattr(x, "at") else x

    x, i, v = np.zeros(4, np.float32), np.array([0, 7]), np.ones(2, np.float32)
    with pytest.raises(IndexFault, match="index 7 is out of bounds for axis 0 with size 4") as caught:
        pf.jit(function)(x, i, v)
    assert caught.value.source is not None and "x.at[i].add(v)" in caught.value.source.text
    assert np.array_equal(pf.jit(function, bounds="clip")(x, i, v), [1, 0, 0, 1])


# ---------------------------------------------------------------------------------------------- on a device


@pytest.fixture
def board() -> Board:
    """A board of its own, with ordinary memory in the place of page-locked memory."""
    return Board()


def page(kept: list[ctypes.Array[ctypes.c_char]]) -> int:
    kept.append(ctypes.create_string_buffer(PAGE))
    return ctypes.addressof(kept[-1])


def test_a_kernel_leaves_its_number_and_the_next_check_raises(board: Board) -> None:
    kept: list[ctypes.Array[ctypes.c_char]] = []
    plan = pf.jit(looked_up).plan(pf.spec("f32[N]"), pf.spec("i64[K]"), target="h200")
    words = [board.word(plan, plan.program, lambda: page(kept)) for _ in range(PAGE // 4 + 1)]
    assert len(kept) == 2 and len({w.address for w in words}) == len(words)
    board.check()
    for word in (words[0], words[3], words[-1]):
        ctypes.c_int32.from_address(word.address).value = 1
        with pytest.raises(IndexFault, match="y = x"):
            board.check()
        board.check()  # it is told once


def test_synchronize_waits_and_then_checks(board: Board) -> None:
    kept: list[ctypes.Array[ctypes.c_char]] = []
    plan = pf.jit(looked_up).plan(pf.spec("f32[N]"), pf.spec("i64[K]"), target="h200")
    word = board.word(plan, plan.program, lambda: page(kept))

    def wait() -> None:
        ctypes.c_int32.from_address(word.address).value = 1  # the kernel was still running

    board.watch("cuda:0", wait)
    with pytest.raises(IndexFault):
        board.synchronize()
    pf.synchronize()  # no device here: nothing to wait for


def test_the_next_call_of_any_function_raises(monkeypatch: pytest.MonkeyPatch, board: Board) -> None:
    kept: list[ctypes.Array[ctypes.c_char]] = []
    plan = pf.jit(looked_up).plan(pf.spec("f32[N]"), pf.spec("i64[K]"), target="h200")
    other = pf.jit(lambda x: x + 1)
    launch = other.bind(np.zeros(3, np.float32))
    for module in (dispatch, bound):
        monkeypatch.setattr(module, "BOARD", board)
        monkeypatch.setattr(module, "STATUS_PAGES", board.pages)
    word = board.word(plan, plan.program, lambda: page(kept))
    for call in (lambda: other(np.zeros(3, np.float32)), launch):
        ctypes.c_int32.from_address(word.address).value = 1
        with pytest.raises(IndexFault, match="y = x"):
            call()
        call()


def test_the_status_word_is_a_constant_of_the_launch() -> None:
    """Where kernels run on a device, their word is no buffer of the call, which could not outlive it."""
    source = pf.jit(looked_up).plan(pf.spec("f32[N]"), pf.spec("i64[K]"), target="h200").source()
    (line,) = [line for line in source.splitlines() if "def " in line]
    assert "index_fault" in line and 'atomic("max", index_fault, 0' in source


@pytest.mark.parametrize("wrong", [-1, 3])
def test_choices_count_from_the_start_and_no_other_is_made(wrong: int) -> None:
    @pf.jit(target="cpu")
    def chosen(x: Any, i: Any) -> Any:
        return np.choose(i, [x, -x, x * 2])

    x, i = np.arange(6.0), np.arange(6) % 3
    np.testing.assert_array_equal(chosen(x, i), np.choose(i, [x, -x, x * 2]))
    i[4] = wrong
    with pytest.raises(IndexFault, match="out of bounds"):
        chosen(x, i)


def test_choices_that_are_known_to_be_there_are_not_tested() -> None:
    @pf.jit
    def chosen(x: Any, i: Any) -> Any:
        return np.choose(i % 2, [x, -x]) + np.choose(i > 0, [x, 1])

    assert "fault" not in chosen.plan(pf.spec("f32[N]"), pf.spec("i64[N]"), target="cpu").source()
