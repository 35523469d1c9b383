"""Interior and border: blocks inside compute one region and test nothing; the others agree with NumPy all the same."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from tests.schedules.loops import loops_without_masks


def rolled(x):
    return np.roll(x, 1, axis=0) + np.roll(x, -1, axis=0) + np.roll(x, 2, axis=1) - 3 * x


def padded(mode: str) -> Callable[..., object]:
    def smooth(x):
        p = np.pad(x, 1, mode=mode)
        return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]

    return smooth


def joined(x, y):
    return np.tanh(np.concatenate([x, y], axis=1))


def branches(source: str) -> tuple[str, str]:
    """The text of the interior and of the border."""
    body = source[source.index("    if ") :]
    inside, _, outside = body.partition("    else:\n")
    return inside, outside


@pytest.mark.parametrize(
    ("function", "loads", "regions"),
    [(rolled, 4, 7), (padded("edge"), 4, 16), *((padded(mode), 4, 24) for mode in ("wrap", "reflect", "symmetric"))],
)
def test_inside_one_region_is_read_and_nothing_is_tested(function, loads: int, regions: int) -> None:
    """But in the vectors in which a row begins and ends, which a block has where rows are no longer."""
    inside, outside = branches(pf.jit(function).plan(pf.spec("f32[N~2000, M~100000]"), target="cpu").source())
    (middle,) = loops_without_masks(inside)
    assert middle.count("load(") == loads and "where(" not in middle
    assert outside.count("load(") == regions and "mask=" in outside


@pytest.mark.parametrize("function", [rolled, padded("reflect"), padded("edge")])
def test_every_block_is_right(function) -> None:
    """Arrays of one block, of border blocks only, and with an interior; widths that fill blocks and others."""
    jitted, rng = pf.jit(function), np.random.default_rng(0)
    for shape in [(2, 3), (3, 32), (5, 64), (7, 95), (33, 129), (4, 700), (70, 5000)]:
        x = rng.standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(jitted(x), function(x.astype(np.float64)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["cpu", "h200"])
def test_the_interpreter_agrees(target: str) -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal(s).astype(np.float32) for s in ((9, 300), (9, 76)))
    for function, arguments in ((rolled, (x,)), (padded("reflect"), (x,)), (joined, (x, y))):
        specs = [pf.spec(f"f32[N~2000, {'KL'[k]}~3000]") for k in range(len(arguments))]
        found = run_plan(pf.jit(function).plan(*specs, target=target), arguments)
        np.testing.assert_allclose(found[0], function(*arguments), rtol=1e-5, atol=1e-5)


def test_a_mask_that_no_block_passes_is_no_border() -> None:
    """The sum over nothing reads nothing; the only block of its consumer has no digit of its own."""
    jitted = pf.jit(lambda x: np.linspace(x.sum(), 2, 4))
    for shape in [(0, 0), (0, 3), (3, 0)]:
        np.testing.assert_allclose(jitted(np.zeros(shape)), np.linspace(0, 2, 4))


def halves(x, y):
    return np.concatenate([x * 2, y + 1])


def thirds(x, y):
    return np.concatenate([x * 2, y + 1, -x])


def turned(x, c):
    h = x.shape[-1] // 2
    return x * c[:, None] + np.concatenate([-x[..., h:], x[..., :h]], axis=-1)


@pytest.mark.parametrize(
    ("function", "specs", "interiors"),
    [
        (halves, ("f32[K~3000000]", "f32[L~3000000]"), 2),
        (thirds, ("f32[K~3000000]", "f32[L~3000000]"), 3),
        (turned, ("f16[N~4096, H~32, M~128]", "f16[N~4096, M~128]"), 2),
        (padded("edge"), ("f32[N~4000, M~4000]",), 1),
    ],
)
def test_every_part_that_is_long_has_an_interior(function, specs: tuple[str, ...], interiors: int) -> None:
    """Blocks of the first half of a concatenation took the masked branch: 330 us of 134 million on an H200, not 255."""
    source = pf.jit(function).plan(*map(pf.spec, specs), target="h200").source()
    deep = re.search(r"\n +el", source)[0].removesuffix("el")
    *inside, outside = source[source.index(f"{deep}if ") :].split(f"{deep}el")
    assert len(inside) == interiors and outside.startswith("se:")
    for branch in inside:
        text = branch.partition(":\n")[2]
        assert "load(" in text and "mask=" not in text and "where(" not in text


@pytest.mark.parametrize(("count", "bodies"), [(4, 2), (24, 1)])
def test_a_body_of_many_instructions_is_written_once(count: int, bodies: int) -> None:
    """48 sines of a thread are no 2,000 operations, but as many instructions."""
    function = pf.jit(lambda x: np.stack([np.sin(k * x) for k in range(1, count + 1)]))
    assert function.plan(pf.spec("f32[N~4000000]"), target="h200").source().count("load(x_in") == bodies


def test_blocks_inside_of_short_rows_are_asked_for_before_those_at_their_ends() -> None:
    """Of two blocks of a row the second one stands for the middle: the first has none of its masks."""
    function = pf.jit(lambda x: np.ascontiguousarray(np.transpose(x, (3, 0, 2, 1))))
    source = function.plan(pf.spec("bf16[N~906, M~426, K~59, 4]"), target="h200").source()
    first, second, *_ = re.split(r"\n    (?:if|elif|else)\b", source)[1:]
    assert "mask=" not in first and "mask=" in second


@pytest.mark.parametrize("target", ["cpu", "h200"])
@pytest.mark.parametrize("function", [halves, thirds, turned])
def test_every_part_is_right(function, target: str) -> None:
    rng = np.random.default_rng(2)
    rows = "f32[N~4096, H~32, M~128]", "f32[N~4096, M~128]"
    specs = rows if function is turned else ("f32[K~300000]", "f32[L~300000]")
    plan = pf.jit(function).plan(*map(pf.spec, specs), target=target)
    long = [((5000,), (3000,)), ((4,), (8,)), ((1200,), (12,))]
    for shapes in [((2, 9, 264), (2, 264))] if function is turned else long:
        x, y = (rng.standard_normal(s).astype(np.float32) for s in shapes)
        np.testing.assert_allclose(run_plan(plan, (x, y))[0], function(x, y), rtol=1e-6, atol=1e-6)


def test_parts_that_begin_with_whole_vectors_are_read_in_vectors() -> None:
    plan = pf.jit(halves).plan(pf.spec("f32[K~3000000]"), pf.spec("f32[L~3000000]"), target="h200")
    assert any(str(g) == "K mod 4 = 0" for g in plan.guards)
    inside = plan.source().partition("    else:")[0]
    assert {line.split(", ")[2] for line in inside.splitlines() if "load(" in line} == {"TILE2X4)"}
    assert "TILE2X4 = Tile((2, 4), (512, 1), vector=4)" in inside
    odd = pf.jit(halves).plan(pf.spec("f32[K~3000001]"), pf.spec("f32[L~3000000]"), target="h200")
    assert any(re.fullmatch("K mod [24] != 0", str(g)) for g in odd.guards)


def blurred(mode: str, step: int = 1) -> Callable[..., object]:
    def blur(x):
        p = np.pad(x, 2, mode=mode)
        n, m = x.shape
        v = sum(k * p[i : i + n] for i, k in enumerate((1, 4, 6, 4, 1)))
        return sum(k * v[:, j : j + m] for j, k in enumerate((1, 4, 6, 4, 1)))[::step, ::step]

    return blur


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap", "symmetric"])
def test_at_the_border_one_load_chooses_the_piece(mode: str) -> None:
    """Nine windows of pieces in registers: 409 us of 134 million elements on an H200, 3 KB of them a thread spilled."""
    plan = pf.jit(blurred(mode, 2)).plan(pf.spec("f32[N~16384, M~8192]"), target="h200")
    assert len(plan.kernels) == 1
    inside, outside = branches(plan.source())
    assert inside.count("load(") == outside.count("load(") == 1
    assert "vector=4" in plan.source() and "where(" not in inside


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap", "symmetric"])
@pytest.mark.parametrize("shape", [(3, 4), (40, 64), (70, 300)])
def test_the_chosen_piece_is_right(mode: str, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    plan = pf.jit(blurred(mode)).plan(pf.spec("f32[N~4096, M~4096]"), target="h200")
    np.testing.assert_allclose(run_plan(plan, (x,))[0], blurred(mode)(x), rtol=1e-5, atol=1e-5)


@pytest.mark.ptx
def test_at_the_border_nothing_spills() -> None:
    from polyfuse.backends.numba_cuda.assemble import assemble, find_ptxas
    from polyfuse.backends.numba_cuda.compile import compile_kernel
    from polyfuse.codegen.names import function_name
    from polyfuse.codegen.printer import print_kernel

    (launch,) = pf.jit(blurred("reflect", 2)).plan(pf.spec("f32[N~16384, M~8192]"), target="h200").launches
    k, name = launch.kernel, function_name(launch.kernel.name)
    made = compile_kernel(print_kernel(k), name, k.parameters, k.threads, (9, 0), k.minimum_blocks)
    assert ".local" not in made.ptx
    assert not find_ptxas() or assemble(made).resources.spilled_bytes == 0
