"""Prefixes that go on from block to block: every verdict on random places is that of enumeration."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from polyfuse.affine import Affine, digit
from polyfuse.legality import prove
from polyfuse.places.builder import Refused
from polyfuse.schedule import Digit
from polyfuse.verdict import Kind
from tests.legality import programs
from tests.legality.cases import Case
from tests.legality.compare import disagreements
from tests.legality.legal import prefix_in_order
from tests.legality.schedules import M, N, b, block, schedule, slot, thread

SEEDS = 300


def drawn(random: Random) -> Case | None:
    """Rows of N elements: blocks, threads and slots in some order from the slowest to the fastest, most of them in that
    in which the machine runs through them."""
    parts: list[Digit] = []
    if random.random() < 0.8:
        parts.append(slot("c", random.choice((2, 3))))
    if random.random() < 0.8:
        parts.append(thread("t", 1, random.choice((2, 4))))
    if random.random() < 0.8:
        parts.append(slot("v", random.choice((2, 3))))
    if random.random() < 0.3:
        random.shuffle(parts)
    inner, weight = Affine.of(0), 1
    for part in reversed(parts):
        inner, weight = inner + digit(part.name) * weight, weight * part.count
    count = N.ceildiv(weight)
    blocks = [block("b", M), block("b1", count)]
    entry = digit("b1") * weight + inner
    if random.random() < 0.2:
        entry = (count - 1 - digit("b1")) * weight + inner
    place = [b, entry]
    places = {"exp": place, "sum": place, "exp_1": place}
    program = programs.prefix(M, N, 1, exclusive=random.random() < 0.3)
    try:
        scop, kernel = schedule(program, [*blocks, *parts], places, in_order={"b1": (random.choice((1, 2, 4)), 0)})
    except Refused:
        return None
    changed = random.random()
    if changed < 0.1:
        kernel = replace(kernel, grid_scans=())
    elif changed < 0.2:
        kernel = replace(kernel, grid_scans=tuple(replace(g, digit="b") for g in kernel.grid_scans))
    sizes = tuple({"M": random.randint(1, 2), "N": random.randint(1, 20)} for _ in range(2))
    return Case("prefix in order", scop, kernel, sizes, ())


def test_verdicts_agree_with_enumeration() -> None:
    told: Counter[str] = Counter()
    for seed in range(SEEDS):
        case = drawn(Random(seed))
        if case is None:
            continue
        wrong, found = disagreements(case)
        assert not wrong, (seed, wrong)
        told["legal" if all(v.kind is Kind.LEGAL for v in found.values()) else "illegal"] += 1
    assert told["legal"] >= SEEDS / 4 and told["illegal"] >= SEEDS / 10, told


@pytest.mark.parametrize("changed", [dict(group=0), dict(lead=-1)])
def test_what_blocks_leave_is_counted_from_one(changed: dict[str, int]) -> None:
    scop, legal = prefix_in_order()
    assert prove(scop, legal)
    verdict = prove(scop, replace(legal, grid_scans=(replace(legal.grid_scans[0], **changed),)))
    assert verdict.rule == "executed" and "leaves" in verdict.sentence


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (dict(scan="exp"), "exp goes on from block to block, but is no prefix"),
        (dict(digit="t"), "sum goes on along t, which is not a block digit"),
    ],
)
def test_only_prefixes_go_on_and_only_through_blocks(changed: dict[str, str], words: str) -> None:
    scop, legal = prefix_in_order()
    verdict = prove(scop, replace(legal, grid_scans=(replace(legal.grid_scans[0], **changed),)))
    assert verdict.rule == "executed" and words in verdict.sentence


def test_a_prefix_goes_on_once() -> None:
    scop, legal = prefix_in_order()
    verdict = prove(scop, replace(legal, grid_scans=(*legal.grid_scans, *legal.grid_scans)))
    assert verdict.rule == "executed" and "twice" in verdict.sentence
