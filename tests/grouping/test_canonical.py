"""The plan depends on the program's structure alone: not on spelling, statement order or hashing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from polyfuse.grouping import search
from tests.grouping.model import Model, Program
from tests.grouping.programs import (
    attention,
    blocks,
    chain,
    layernorm,
    normalised_twice,
    optimizer,
    realistic,
    softmax,
)

ROOT = Path(__file__).parents[2]


def plan(program: Program) -> list[tuple[list[str], list[str], int]]:
    """Kernels in launch order, values by their structural names."""
    digests = program.digests()
    return [
        (sorted(digests[v] for v in kernel.roots), sorted(digests[v] for v in kernel.body), kernel.time)
        for kernel in search(Model(program)).kernels
    ]


WRITTEN = [chain(12), softmax(), layernorm(), attention(), normalised_twice(), optimizer(6), blocks(60)]
RANDOM = [realistic(seed, 12).program for seed in range(30)]


@pytest.mark.parametrize("index", range(len(WRITTEN) + len(RANDOM)))
def test_permuted_statements_give_the_same_plan(index: int) -> None:
    """Three permutations of each of 37 programs."""
    program = (WRITTEN + RANDOM)[index]
    expected = plan(program)
    for seed in (1, 2, 3):
        assert plan(program.shuffled(seed).canonical()) == expected


SCRIPT = """
from polyfuse.grouping import search
from tests.grouping.model import Model
from tests.grouping.programs import adversarial, blocks
for model in [Model(blocks(80)), *(adversarial(seed, 12) for seed in range(6))]:
    grouping = search(model)
    print([(sorted(k.roots), sorted(k.body), k.time) for k in grouping.kernels])
    print([(pair, str(verdict)) for pair, verdict in grouping.log.items()])
"""


def test_permutations_permute() -> None:
    assert all(program.shuffled(1).ops != program.ops for program in (softmax_pair(), blocks(60), *RANDOM))


def softmax_pair() -> Program:
    return Program((*softmax().ops, *attention().ops[:1]), softmax().outputs)


def test_processes_with_other_hash_seeds_agree() -> None:
    texts = set()
    for seed in ("0", "1", "31337"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        run = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, cwd=ROOT, capture_output=True, check=True)
        texts.add(run.stdout)
    assert len(texts) == 1 and texts.pop().strip()
