"""One program checked, and what is written down of a failure: enough to repeat it with any later generator."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.check import Failure, check
from polyfuse.fuzz.generate import counts, random_program
from polyfuse.fuzz.program import RandomProgram, WrittenProgram
from polyfuse.fuzz.record import Record
from polyfuse.fuzz.script import save
from polyfuse.fuzz.shrink import shrunk
from polyfuse.fuzz.ways import Way

HERE = f"{Path(__file__).parents[2]}/"  # a record names files, not the machine that it was made on


@dataclass(frozen=True, slots=True)
class Corpus:
    """Which programs run, and how.  `folder`: where scripts of failures go."""

    backend: str
    folder: Path


def run_one(corpus: Corpus, seed: int) -> tuple[Record, Failure | None]:
    """The record of the program of one seed, and how it fails."""
    record, program = Record(), random_program(seed)
    assert counts(program)
    before = time.monotonic()
    report = check(program.written, seed, corpus.backend)
    record.add(program, report, time.monotonic() - before, seed)
    if report.failure is not None:
        record.failures.append(written_down(program, program, report.failure, seed, corpus))
    return record, report.failure


def run_many(corpus: Corpus, seeds: Sequence[int]) -> Record:
    """The record of the programs of some seeds, in this process."""
    record = Record()
    for seed in seeds:
        record.absorb(run_one(corpus, seed)[0])
    return record


def written_down(
    program: RandomProgram, small: RandomProgram, failure: Failure, seed: int, corpus: Corpus
) -> dict[str, Any]:
    """The entry of a failure: the `program`, and a script of the `small` one that fails in the same manner."""
    path = save(small, failure, corpus.folder)
    print(f"seed {seed}: {failure.kind}, {path}\n{small.written.source}{failure.text}\n", flush=True)
    return {
        "seed": seed,
        "kind": failure.kind,
        "backend": corpus.backend,
        "script": path.name,
        "text": failure.text.replace(HERE, "").strip()[-300:],
        "program": as_data(program.written),
        "shrunk": small.written.source,
        "way": None if failure.way is None else _way_data(failure.way),
    }


def _way_data(way: Way) -> dict[str, Any]:
    return {**asdict(way), "options": [list(option) for option in way.options]}


def ways_of(entry: Mapping[str, Any]) -> list[Way]:
    """The way in which a program failed, where that was written down."""
    if not entry.get("way"):
        return []
    data = dict(entry["way"])
    options = tuple((name, _tuples(value)) for name, value in data.pop("options"))
    return [Way(options=options, **data)]


def _tuples(value: Any) -> Any:
    """Lists that JSON made of tuples, as tuples again."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def as_data(written: WrittenProgram) -> dict[str, Any]:
    arrays = [list(astuple(a)) for a in written.arrays]
    return {"source": written.source, "arrays": arrays, "donate": list(written.donate)}


def from_data(data: Mapping[str, Any]) -> WrittenProgram:
    """A program that `as_data` wrote, JSON in between or not."""
    arrays = [
        ArrayValue(tuple(shape), dtype, fill, seed, None if strides is None else tuple(strides), offset)
        for shape, dtype, fill, seed, strides, offset in data["arrays"]
    ]
    return WrittenProgram(data["source"], tuple(arrays), tuple(data["donate"]))


def group_of(entry: Mapping[str, Any]) -> str:
    """What failures of probably one cause have in common: the kind and the last line without its numbers."""
    last = (entry["text"].strip().splitlines() or [""])[-1]
    return f"{entry['kind']}: {re.sub(r'[-+]?[0-9][0-9.e+-]*', '#', last)[:80]}"


def is_sticky(failure: Failure) -> bool:
    """Whether the driver refuses all that follows: after a fault of a kernel the context is gone."""
    words = ("ILLEGAL_ADDRESS", "MISALIGNED_ADDRESS", "LAUNCH_FAILED", "illegal memory access", "misaligned address")
    return any(word in failure.text for word in words)


def smaller(corpus: Corpus, seed: int, failure: Failure, seconds: float) -> dict[str, Any]:
    """The entry of a failure of a seed, after it was shrunk for so long."""
    program = random_program(seed)
    ways = [failure.way] if failure.way is not None else []
    latest = [failure]

    def fails(candidate: RandomProgram) -> bool:
        try:
            found = check(candidate.written, seed, corpus.backend, ways).failure
        except Exception:  # not a program any more
            return False
        if found is None or found.signature != failure.signature:
            return False
        latest[0] = found
        return True

    small = shrunk(program, fails, seconds)
    return written_down(program, small, latest[0], seed, corpus)


def replayed(entries: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(those that still fail, those that do not): every failure of a record run again, in the ways of its seed and the
    one in which it failed."""
    failing: list[dict[str, Any]] = []
    mended: list[dict[str, Any]] = []
    for entry in entries:
        if "program" not in entry:
            failing.append(dict(entry))
            continue
        written, seed, backend = from_data(entry["program"]), entry["seed"], entry["backend"]
        report = check(written, seed, backend)
        if report.failure is None and not report.refused and (ways := ways_of(entry)):
            report = check(written, seed, backend, ways)
        if report.failure is None and not report.refused:
            mended.append(dict(entry))
        else:
            text = report.failure.text if report.failure is not None else f"refused: {report.refused}"
            failing.append({**entry, "text": text.strip()[-300:]})
    return failing, mended
