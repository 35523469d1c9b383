"""Kernels whose threads wait for each other, or whose blocks share a reduction, get room for more blocks where that
spills nothing."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.backends.numba_cuda.assemble import find_ptxas
from polyfuse.backends.numba_cuda.compile import CompiledKernel, Resources
from polyfuse.errors import CompileError
from polyfuse.kernel import combines_once
from polyfuse.plan import Launch, Plan
from polyfuse.target import H200

pytestmark = [pytest.mark.ptx, pytest.mark.skipif(find_ptxas() is None, reason="needs an assembler")]


def layernorm(x: Any, gain: Any, bias: Any) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) * gain + bias


def only(function: Any, *specs: str) -> tuple[Launch, Plan]:
    plan = pf.jit(function).plan(*map(pf.spec, specs), target="h200")
    (launch,) = plan.launches
    return launch, plan


def compiled(function: Any, *specs: str) -> CompiledKernel:
    from polyfuse.face.numba_cuda import CudaBackend

    launch, plan = only(function, *specs)
    return CudaBackend().job(launch, plan).kernel()


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def test_layernorm_has_four_blocks_on_a_processor_and_spills_nothing() -> None:
    kernel = compiled(layernorm, "f32[N~16384, 4096]", "f32[4096]", "f32[4096]")
    assert kernel.resources is not None
    assert H200.occupancy(256, kernel.resources.registers, kernel.shared_bytes) >= 4
    assert kernel.resources.spilled_bytes == kernel.resources.local_bytes == 0


def test_a_tighter_bound_is_kept_where_nothing_spills() -> None:
    from polyfuse.backends.numba_cuda.resident import Versions, denser

    kernel = compiled(softmax, "f32[N~16384, 4096]")
    versions = Versions(kernel)
    greedy = replace(kernel, resources=Resources(80, 0, 0))  # as if 3 blocks fitted
    other = denser(greedy, H200, versions)
    assert other.resources is not None and other.resources.registers <= 64 and not other.resources.spilled_bytes
    assert other.minimum_blocks == 4 and ".minnctapersm 4" in other.ptx
    half = replace(kernel, resources=Resources(64, 0, 0))
    assert denser(half, H200, versions) is half  # 4 blocks of 256 threads are half of what a processor holds


def test_another_bound_is_tried_where_threads_are_few_all_the_same() -> None:
    """Of 140 registers 127 leave room for two blocks of 256 threads, 80 for three: 150 us and 129 on an H200."""

    def bent(x: Any) -> Any:
        d = x - x.mean(axis=1, keepdims=True)
        return np.tanh(d / np.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5))

    kernel = compiled(bent, "f32[N~8192, 8192]")
    assert kernel.resources is not None and not kernel.resources.spilled_bytes
    assert H200.occupancy(kernel.threads, kernel.resources.registers, kernel.shared_bytes) * kernel.threads >= 768


def test_a_second_bound_that_spills_is_not_kept() -> None:
    from polyfuse.backends.numba_cuda.resident import denser

    kernel = compiled(softmax, "f32[N~16384, 4096]")
    greedy, asked = replace(kernel, resources=Resources(140, 0, 0)), list[int]()

    def bounded(blocks: int) -> CompiledKernel:
        asked.append(blocks)
        return replace(kernel, minimum_blocks=blocks, resources=Resources(120 // blocks, 0, 64 if blocks > 2 else 0))

    assert denser(greedy, H200, bounded).minimum_blocks == 2 and asked == [2, 3]


def test_blocks_that_run_through_a_loop_all_have_room() -> None:
    """Variances over 1500 between, five blocks of 256 threads on a processor: 127 us on an H200 in four, 112 in five.
    """
    from polyfuse.face.numba_cuda import CudaBackend

    def job(spec: str) -> Any:
        launch, plan = only(lambda x: x.var(axis=1), spec)
        return CudaBackend().job(launch, plan)

    few = job("f32[B~550, N~1500, M~121]")
    kernel = few.kernel()
    assert few.wave == 5 and kernel.resources is not None and not kernel.resources.spilled_bytes
    assert H200.occupancy(kernel.threads, kernel.resources.registers, kernel.shared_bytes) >= 5
    assert job("f32[B~9000, N~1500, M~121]").wave == 0  # which are no wave, however many fit


def test_half_of_the_blocks_have_room_where_all_would_spill() -> None:
    from polyfuse.backends.numba_cuda.resident import in_one_wave

    kernel = compiled(softmax, "f32[N~16384, 4096]")
    greedy, asked = replace(kernel, resources=Resources(128, 0, 0)), list[int]()  # two blocks of 256

    def bounded(blocks: int) -> CompiledKernel:
        asked.append(blocks)
        return replace(kernel, minimum_blocks=blocks, resources=Resources(40, 0, 64 if blocks > 5 else 0))

    assert in_one_wave(greedy, H200, 8, bounded).minimum_blocks == 5 and asked == [8, 5]
    assert in_one_wave(greedy, H200, 3, bounded).minimum_blocks == 3


def test_blocks_that_leave_as_many_registers_are_not_tried_again() -> None:
    """Sixteen blocks of 128 threads have 32 registers each, and so have thirteen."""
    from polyfuse.backends.numba_cuda.resident import in_one_wave

    kernel = compiled(softmax, "f32[N~16384, 4096]")
    small, asked = replace(kernel, threads=128, resources=Resources(56, 0, 0)), list[int]()  # nine blocks

    def bounded(blocks: int) -> CompiledKernel:
        asked.append(blocks)
        return replace(small, minimum_blocks=blocks, resources=Resources(32, 128, 216))

    assert in_one_wave(small, H200, 16, bounded) is small and asked == [16]


def test_what_would_spill_stays_as_it_is() -> None:
    from polyfuse.backends.numba_cuda.resident import Versions, denser

    kernel = compiled(softmax, "f32[N~16384, 4096]")
    versions = Versions(kernel)
    spilling = replace(kernel, resources=Resources(64, 8, 8))
    assert denser(spilling, H200, versions) is spilling
    unassembled = replace(kernel, resources=None)
    assert denser(unassembled, H200, versions) is unassembled
    full = replace(kernel, resources=Resources(32, 0, 0))
    assert denser(full, H200, versions) is full  # 8 blocks of 256 threads are all that a processor holds


def column_sum(x: Any) -> Any:
    return x.sum(axis=0)


def variance(x: Any) -> Any:
    return x.var(axis=0)


def position(x: Any) -> Any:
    return x.max(axis=0), x.argmax(axis=0)


@pytest.mark.parametrize("function", [column_sum, variance, position])
def test_blocks_that_share_a_reduction_run_at_once(function: Any) -> None:
    """Sums: 200.8 us on an H200 where three of four blocks fitted a processor, 175 for the bytes."""
    launch, plan = only(function, "f32[200000, 1024]")
    assert launch.schedules[0].grid_combine
    kernel = compiled(function, "f32[200000, 1024]")
    assert kernel.resources is not None and not kernel.resources.local_bytes
    blocks = math.prod(extent.evaluate({}) for extent in launch.kernel.grid)
    assert blocks == 4 * H200.processors
    assert H200.occupancy(kernel.threads, kernel.resources.registers, kernel.shared_bytes) >= 4


class Asked:
    """Kernels that spill in more than two blocks, and the bounds asked for, in order."""

    def __init__(self, kernel: CompiledKernel) -> None:
        self.kernel = kernel
        self.bounds: list[int] = []

    def __call__(self, blocks: int) -> CompiledKernel:
        self.bounds.append(blocks)
        return replace(
            self.kernel, minimum_blocks=blocks, resources=Resources(256 // blocks, 0, 8 * (blocks > 2))
        )


def test_as_many_blocks_as_spill_nothing_run_at_once() -> None:
    from polyfuse.backends.numba_cuda.resident import at_once

    kernel = replace(compiled(column_sum, "f32[200000, 1024]"), resources=Resources(200, 0, 0))
    asked = Asked(kernel)
    assert at_once(kernel, H200, 4, asked).minimum_blocks == 2 and asked.bounds == [4, 3, 2]
    assert at_once(kernel, H200, 1, asked) is kernel
    assert at_once(kernel, H200, 0, asked) is kernel


def test_bounds_that_miss_hundreds_of_registers_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Structural similarity in windows of 7 x 7 was assembled four times, 0.7 s each: three spilled 4 to 8 KB."""
    from polyfuse.backends.numba_cuda import resident

    kernel = replace(compiled(column_sum, "f32[200000, 1024]"), resources=Resources(200, 0, 0))
    left = H200.registers_per_processor // kernel.threads
    for missing, tried in ((resident.HOPELESS, [4]), (resident.HOPELESS + 1, [])):
        monkeypatch.setattr(resident, "pressure", lambda _, needed=left // 4 + missing: needed)
        asked = Asked(kernel)
        resident.crowded(kernel, H200, 4, 3, asked)
        assert asked.bounds == tried
        again = Asked(kernel)
        resident.at_once(kernel, H200, 4, again)
        assert (4 in again.bounds) == bool(tried)
        assert bool(resident.others(kernel, H200, 5, 1)) == bool(tried)


def test_a_word_in_memory_is_as_good_as_none() -> None:
    from polyfuse.backends.numba_cuda.resident import LITTLE, at_once

    kernel = replace(compiled(column_sum, "f32[200000, 1024]"), resources=Resources(200, 0, 0))

    def bounded(blocks: int) -> CompiledKernel:
        return replace(kernel, minimum_blocks=blocks, resources=Resources(64, LITTLE, LITTLE if blocks < 4 else 8))

    assert at_once(kernel, H200, 4, bounded).minimum_blocks == 3


@pytest.mark.parametrize("waits", [False, True])
def test_nothing_makes_room_for_more_blocks_than_there_are(waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One block of a small covariance for every processor was assembled for two and for three as well, in vain."""
    from polyfuse.backends.numba_cuda import resident

    plain, began = compiled(column_sum, "f32[200000, 1024]"), list[int]()
    plain = replace(plain, threads=256, minimum_blocks=1)

    def stand_in(given: CompiledKernel) -> CompiledKernel:
        began.append(given.minimum_blocks)
        return replace(given, resources=Resources(128, 0, 0))  # room for two

    monkeypatch.setattr(resident, "assemble", stand_in)
    for blocks in (1, 2):
        resident.assembled(plain, H200, waits=waits, blocks=blocks)
    assert began == [1, 1]


@pytest.mark.parametrize(
    ("needed", "began"),
    [
        (20, [1]),
        (63, [1]),  # with 64 registers four blocks of 256 threads fit
        (64, [4]),
        (160, [4]),
        (255, [1]),  # which no bound makes up for
    ],
)
def test_a_bound_is_assembled_first_where_registers_will_probably_not_do(
    needed: int, began: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from polyfuse.backends.numba_cuda import resident

    plain = replace(compiled(column_sum, "f32[200000, 1024]"), threads=256, minimum_blocks=1, shared_bytes=0)
    plain = replace(plain, ptx=re.sub(r"^\.minnctapersm .*$", ".minnctapersm 1", plain.ptx, flags=re.MULTILINE))
    asked = list[int]()

    def stand_in(given: CompiledKernel) -> CompiledKernel:
        asked.append(given.minimum_blocks)
        return replace(given, resources=Resources(64, 0, 0))

    monkeypatch.setattr(resident, "assemble", stand_in)
    monkeypatch.setattr(resident, "pressure", lambda ptx: needed)
    resident.assembled(plain, H200, waits=False, blocks=4)
    assert asked == began


@pytest.mark.parametrize(
    ("registers", "found", "asked_for"),
    [
        ({4: (64, 0)}, 4, [4]),  # all that there are for four
        ({4: (63, 0)}, 4, [4]),  # as many may fit without a bound, but no more
        ({4: (64, 8), 3: (80, 0)}, 3, [4, 3]),
        ({4: (64, 8), 3: (80, 8)}, None, [4, 3]),  # room for two is expected without a bound
    ],
)
def test_a_version_that_spills_nothing_for_all_of_its_blocks_is_the_last_one_assembled(
    registers: dict[int, tuple[int, int]], found: int | None, asked_for: list[int]
) -> None:
    from polyfuse.backends.numba_cuda.resident import crowded

    plain = replace(compiled(column_sum, "f32[200000, 1024]"), threads=256, shared_bytes=0)
    asked = list[int]()

    def bounded(blocks: int) -> CompiledKernel:
        asked.append(blocks)
        taken, spilled = registers[blocks]
        return replace(plain, minimum_blocks=blocks, resources=Resources(taken, spilled, spilled))

    made = crowded(plain, H200, 4, 2, bounded)
    assert (made and made.minimum_blocks) == found and asked == asked_for


def test_a_bound_of_all_registers_is_not_assembled_for_itself() -> None:
    """Similarity in windows of 7 x 7 was assembled for two blocks of 128 threads and for one, of 255 registers each."""
    from polyfuse.backends.numba_cuda.resident import crowded

    plain = replace(compiled(column_sum, "f32[200000, 1024]"), threads=128, shared_bytes=0)
    asked = Asked(replace(plain, resources=Resources(255, 48, 48)))
    assert crowded(plain, H200, 2, 1, asked) is None and asked.bounds == []
    assert crowded(plain, H200, 3, 1, asked) is None and asked.bounds == [3]


def test_one_assembly_is_enough_for_a_covariance() -> None:
    """Its sums need 87 registers, of which four blocks of 256 threads have 64."""
    from polyfuse.backends.numba_cuda import resident

    def covariance(x: Any, y: Any) -> Any:
        return ((x - x.mean(axis=0)) * (y - y.mean(axis=0))).mean(axis=0)

    began = list[int]()
    assemble = resident.assemble

    def counted(given: CompiledKernel) -> CompiledKernel:
        began.append(given.minimum_blocks)
        return assemble(given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resident, "assemble", counted)
        kernel = compiled(covariance, "f32[30000, 3001]", "f32[30000, 3001]")
    assert began == [kernel.minimum_blocks] == [4]


def test_a_bound_that_is_refused_fails_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from polyfuse.backends.numba_cuda import resident
    from polyfuse.errors import CompileError

    plain = compiled(column_sum, "f32[200000, 1024]")

    def stand_in(given: CompiledKernel) -> CompiledKernel:
        if given.minimum_blocks != plain.minimum_blocks:
            raise CompileError("refused")
        return replace(given, resources=Resources(200, 0, 0))

    monkeypatch.setattr(resident, "assemble", stand_in)
    with pytest.raises(CompileError, match="refused"):
        resident.assembled(plain, H200, waits=False, blocks=4 + plain.minimum_blocks)


@pytest.mark.parametrize(
    ("function", "specs", "blocks"),
    [
        (column_sum, ("f32[200000, 1024]",), 4),
        (column_sum, ("f32[N~200000, 1024]",), 4),
        (lambda x: (x * x).mean(), ("f32[N~16384, M~16384]",), 0),  # many waves of blocks
        (column_sum, ("f32[16384, 16384]",), 0),  # a block has all rows of its columns
        (lambda x: np.exp(x), ("f32[65536, 4096]",), 0),
        (lambda x, y: (x.sum(axis=0), y.sum(axis=0)), ("f32[N~9000, 64]", "f32[M~9000, 64]"), 2),  # side by side
    ],
)
def test_blocks_that_share_are_counted(function: Any, specs: tuple[str, ...], blocks: int) -> None:
    from polyfuse.face.numba_cuda import CudaBackend

    launch, plan = only(function, *specs)
    assert CudaBackend().job(launch, plan).blocks == blocks


@pytest.mark.parametrize(
    ("function", "spec", "waits"),
    [
        (lambda x: x / x.sum(axis=1, keepdims=True), "f32[N~65536, 4096]", True),
        (lambda x: x / x.sum(axis=1, keepdims=True), "f32[N~65536, 16]", False),  # lanes of one warp
        (lambda x: np.exp(x) + 1, "f32[N~65536, 4096]", False),
        (lambda x: x.sum(axis=0), "f32[N~65536, 4096]", False),  # the loop's loads overlap
    ],
)
def test_only_threads_that_wait_for_other_warps_leave_gaps(function: Any, spec: str, waits: bool) -> None:
    assert combines_once(only(function, spec)[0].kernel) is waits


def test_ptxas_takes_large_pages_beside_what_the_user_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from polyfuse.backends.numba_cuda.assemble import assemble_by_ptxas

    told = tmp_path / "ptxas"
    told.write_text('#!/bin/sh\necho "$GLIBC_TUNABLES" >&2\nexit 1\n')
    told.chmod(0o755)
    kernel = CompiledKernel("k", "", 32, 1, (9, 0), "", 0, 0)
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=1")
    with pytest.raises(CompileError, match=r"glibc\.malloc\.check=1:glibc\.malloc\.hugetlb=1:"):
        assemble_by_ptxas(kernel, str(told))


def test_kernels_that_spill_get_registers_for_fewer_blocks() -> None:
    from polyfuse.backends.numba_cuda.resident import roomier

    kernel = replace(compiled(softmax, "f32[N~16384, 4096]"), threads=128, minimum_blocks=6)
    kernel = replace(kernel, resources=Resources(80, 200, 652))
    spilled = {5: 440, 4: 48, 3: 32, 2: 0}
    asked: list[int] = []

    def bounded(blocks: int) -> CompiledKernel:
        asked.append(blocks)
        return replace(kernel, minimum_blocks=blocks, resources=Resources(80, 0, spilled[blocks]))

    assert roomier(kernel, H200, bounded).minimum_blocks == 3
    assert asked == [4, 3]  # 96 registers for five are far less than the 130 words that there are
    two = replace(kernel, minimum_blocks=2)  # where they wait for each other, two are wanted whatever it takes
    assert roomier(two, H200, bounded) is two
    fine = replace(kernel, resources=Resources(80, 0, 0))
    assert roomier(fine, H200, bounded) is fine
    far = replace(kernel, resources=Resources(80, 1000, 2000))
    assert roomier(far, H200, bounded).minimum_blocks == 2 and asked[2:] == [2]


def test_bounds_that_spill_for_certain_by_what_another_took_are_not_assembled() -> None:
    """A focal loss was assembled for four blocks of 256, which had 288 bytes of a thread in memory, for three and two.
    """
    from polyfuse.backends.numba_cuda.resident import at_once, crowded

    kernel = replace(compiled(column_sum, "f32[200000, 1024]"), threads=256, shared_bytes=0)
    kernel = replace(kernel, resources=Resources(167, 0, 0))
    for local, bounds in ((288, [4, 2]), (32, [4, 3, 2])):
        for find in (lambda b: at_once(kernel, H200, 4, b), lambda b: crowded(kernel, H200, 4, 1, b)):
            asked: list[int] = []

            def bounded(blocks: int, asked: list[int] = asked, local: int = local) -> CompiledKernel:
                asked.append(blocks)
                found = Resources(256 // blocks, local, local) if blocks > 2 else Resources(128, 0, 0)
                return replace(kernel, minimum_blocks=blocks, resources=found)

            made = find(bounded)
            assert made is not None and made.minimum_blocks == 2 and asked == bounds


def test_a_guess_that_misses_hundreds_of_registers_is_not_assembled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of Cahn and Hilliard's equation was, for five blocks, and had 1,544 bytes of a thread in memory."""
    from polyfuse.backends.numba_cuda import resident

    plain = replace(compiled(column_sum, "f32[200000, 1024]"), threads=128, minimum_blocks=5, shared_bytes=0)
    began = list[int]()

    def stand_in(given: CompiledKernel) -> CompiledKernel:
        began.append(given.minimum_blocks)
        return replace(given, resources=Resources(96, 0, 0))

    monkeypatch.setattr(resident, "assemble", stand_in)
    left = H200.registers_per_processor // (5 * plain.threads)
    for missing, first in ((resident.HOPELESS, 5), (resident.HOPELESS + 1, 2)):
        monkeypatch.setattr(resident, "pressure", lambda _, needed=left + missing: needed)
        resident.assembled(plain, H200, waits=False, blocks=0, guessed=True)
        assert began.pop() == first and not began


def shallow(h: Any, u: Any, v: Any) -> Any:
    x, y = np.roll(h, -1, 0) - np.roll(h, 1, 0), np.roll(h, -1, 1) - np.roll(h, 1, 1)
    flow = np.roll(u, -1, 0) - np.roll(u, 1, 0) + np.roll(v, -1, 1) - np.roll(v, 1, 1)
    return h - 0.1 * flow, u - 0.05 * x, v - 0.05 * y


def test_steps_of_what_is_rolled_spill_next_to_nothing() -> None:
    """6000 x 6002 on an H100: 422 us with 652 bytes of each thread in memory."""
    kernel = compiled(shallow, "f32[N~6000, M~6002]", "f32[N, M]", "f32[N, M]")
    assert kernel.resources is not None and kernel.resources.spilled_bytes <= 32


def ptxas_of_ours(folder: Path, work: str) -> str:
    """An assembler that says in files which bounds it was given, and for which it is done.  `work`: what it does in
    between, in Python: `bound` are its blocks, `done` says which others are done; `spilled` is what it prints."""
    told = folder / "ptxas"
    script = f"""
import re, sys, time
from pathlib import Path
bound = int(re.search(r"minnctapersm (\\d+)", open(sys.argv[3]).read())[1])
spilled = 0
def done():
    return [int(b) for b in Path(__file__ + ".done").read_text().split()] if Path(__file__ + ".done").exists() else []
open(__file__ + ".asked", "a").write(f"{{bound}} ")
{work}
open(sys.argv[5], "w").write(str(bound))
print(f"Used 70 registers\\n0 bytes stack frame, {{spilled}} bytes spill stores", file=sys.stderr)
open(__file__ + ".done", "a").write(f"{{bound}} ")
"""
    (folder / "script.py").write_text(script)
    told.write_text(f'#!/bin/sh\nexec {sys.executable} {folder}/script.py "$@"\n')
    told.chmod(0o755)
    return str(told)


@pytest.mark.parametrize("idle", [0, 1, 2, 3])
def test_versions_that_will_probably_be_asked_for_begin_early(
    idle: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polyfuse.backends.numba_cuda import assemble, resident

    plain = replace(compiled(softmax, "f32[N~16384, 4096]"), threads=128, minimum_blocks=1, cubin=None, resources=None)
    plain = replace(plain, ptx=re.sub(r"\.minnctapersm \d+", ".minnctapersm 1", plain.ptx))
    path = ptxas_of_ours(tmp_path, "time.sleep(60 if bound in (6, 7) else 0)")
    monkeypatch.setattr(assemble, "find_ptxas", lambda: path)
    monkeypatch.setattr(resident, "find_ptxas", lambda: path)
    monkeypatch.setattr(resident, "_expected", lambda kernel, target: 6)
    # 70 registers leave room for 7 blocks: 8 are asked for, 7 and 6 were probable
    found = resident.assembled(plain, H200, waits=True, blocks=0, idle=idle)
    asked = (tmp_path / "script.py.asked").read_text().split()
    assert found.minimum_blocks == 8 and found.cubin == b"8"
    assert set(asked) <= {"1", "8", "7", "6"} and {"1", "8"} <= set(asked)
    assert sorted((tmp_path / "script.py.done").read_text().split()) == ["1", "8"], "what nobody asked for was ended"
    assert asked.count("8") == 1, "a version that was begun is not begun again"
    monkeypatch.setattr(resident, "_expected", lambda kernel, target: 7)
    (tmp_path / "script.py.asked").unlink()
    found = resident.assembled(plain, H200, waits=True, blocks=0, idle=idle)
    asked = (tmp_path / "script.py.asked").read_text().split()
    assert found.minimum_blocks == 8 and asked.count("8") == 1


@pytest.mark.parametrize("idle", [0, 1, 2])
@pytest.mark.parametrize("guessed", [True, False])
def test_versions_with_more_registers_begin_beside_one_that_will_probably_spill(
    guessed: bool, idle: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polyfuse.backends.numba_cuda import assemble, resident

    plain = replace(compiled(softmax, "f32[N~16384, 4096]"), threads=128, cubin=None, resources=None)
    bound = 6 if guessed else 1
    text = re.sub(r"\.minnctapersm \d+", f".minnctapersm {bound}", plain.ptx)
    plain = replace(plain, minimum_blocks=bound, ptx=text)
    fits = 4 if guessed else 5
    waits = f"""
spilled = 400 if bound > {fits} else 0
for _ in range(300 if bound == 6 and {idle} else 0):
    time.sleep(0 if {fits} in done() else 0.1)
"""
    path = ptxas_of_ours(tmp_path, waits)
    for module in (assemble, resident):
        monkeypatch.setattr(module, "find_ptxas", lambda: path)
    monkeypatch.setattr(resident, "pressure", lambda ptx: 90)  # 6 blocks leave 80 registers each, 5 leave 96
    monkeypatch.setattr(resident, "_expected", lambda kernel, target: 4)
    found = resident.assembled(plain, H200, waits=False, blocks=0 if guessed else 6, guessed=guessed, idle=idle)
    assert found.minimum_blocks == fits and found.cubin == str(fits).encode()
    asked = (tmp_path / "script.py.asked").read_text().split()
    done = (tmp_path / "script.py.done").read_text().split()
    wanted = ["6", str(fits)]
    assert all(asked.count(b) == 1 for b in wanted), "each once"
    assert set(asked) <= {*wanted, *(["5"] if guessed else ["1"])}
    assert idle < 1 or done.index(wanted[1]) < done.index("6"), "it was there before the first one"


def test_a_version_that_was_begun_is_waited_for_once_and_errors_are_ours(tmp_path: Path) -> None:
    from polyfuse.backends.numba_cuda.assemble import begin

    told = tmp_path / "ptxas"
    told.write_text("#!/bin/sh\necho no such thing >&2\nexit 1\n")
    told.chmod(0o755)
    kernel = CompiledKernel("k", "", 32, 1, (9, 0), "", 0, 0)
    run = begin(kernel, str(told))
    with pytest.raises(CompileError, match="no such thing"):
        run.result()
    assert not Path(run.folder.name).exists()
    run = begin(kernel, str(told))
    run.drop()
    assert not Path(run.folder.name).exists()
