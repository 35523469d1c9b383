"""``python -m polyfuse.fuzz --seconds N --seed S``: random programs until the time is over; 1 if one failed.

``--out FILE`` keeps the record there, rewritten as it grows, and adds to what the file holds; ``--resume`` goes on
behind the last seed that it names.  ``--merge FILE ...`` adds up records of other seeds, machines and days;
``--replay FILE`` runs the failures of a record again, and writes down those that this commit has mended as such.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from polyfuse.errors import DeviceError
from polyfuse.fuzz.carriers import check_machine
from polyfuse.fuzz.crew import Crew, Limits
from polyfuse.fuzz.findings import Corpus, group_of, replayed
from polyfuse.fuzz.record import Record, commit, described, from_json, merged, to_json

WRITTEN = 2.0  # seconds between two versions of the record on disk


def main() -> int:
    options = _parser().parse_args()
    if options.merge:
        record = merged(_read(path) for path in options.merge)
        for run in record.runs:
            if options.commit and (not run["commit"] or run["commit"].endswith("+")):
                run["commit"] = options.commit
        _write(record, options.out)
        return 0
    if options.replay:
        return _replay(options.replay, options.out or options.replay, options.commit)
    try:
        check_machine(options.backend)
    except DeviceError as error:
        print(error, file=sys.stderr)
        return 2
    before = _read(options.out) if options.out is not None and options.out.exists() else Record()
    seed = options.seed
    if options.resume:
        seed = max((run["seeds"][1] for run in before.runs), default=seed)
    record = _fuzz(options, seed, before)
    if options.out is None:
        _write(record, None)
    return 1 if record.failures else 0


def _fuzz(options: argparse.Namespace, seed: int, before: Record) -> Record:
    """The record of this run on top of `before`; written to ``--out`` as it grows."""
    started, own, behind, written = time.monotonic(), Record(), seed, 0.0
    settings = {**vars(options), "seed": seed}

    def total(behind: int) -> Record:
        own.seconds = time.monotonic() - started
        run = described(settings, (seed, behind), own, own.seconds)
        return merged([before, own, Record(runs=[run])])

    limits = Limits(options.seconds, options.limit, options.shrink)
    crew = Crew(Corpus(options.backend, options.save), seed, options.processes, options.programs, limits)
    for behind, record in crew.records():
        own.absorb(record)
        if options.out is not None and time.monotonic() > written + WRITTEN:
            _write(total(behind), options.out)
            written = time.monotonic()
    found = total(behind)
    if options.out is not None:
        _write(found, options.out)
    _summary(own)
    return found


def _summary(record: Record) -> None:
    """How many programs ran, and the failures by what they have in common."""
    rate = record.programs / max(record.seconds, 1e-9)
    print(f"{record.programs} programs in {record.seconds:.0f} s, {rate:.2f} per second", file=sys.stderr)
    groups: dict[str, list[int]] = {}
    for entry in record.failures:
        groups.setdefault(group_of(entry), []).append(entry["seed"])
    for group, seeds in sorted(groups.items(), key=lambda item: -len(item[1])):
        print(f"{len(seeds)} x {group} (seeds {', '.join(map(str, seeds[:8]))})", file=sys.stderr)


def _replay(source: Path, out: Path, at: str) -> int:
    record, at = _read(source), at or commit()
    record.failures, mended = replayed(record.failures)
    record.mended += [{**entry, "mended at": at} for entry in mended]
    _write(record, out)
    print(f"{len(mended)} failures are mended at {at}, {len(record.failures)} are not", file=sys.stderr)
    return 1 if record.failures else 0


def _read(path: Path) -> Record:
    return from_json(json.loads(path.read_text()))


def _write(record: Record, path: Path | None) -> None:
    text = json.dumps(to_json(record), indent=2) + "\n"
    if path is None:
        print(text)
        return
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    os.replace(new, path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m polyfuse.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0, help="of the first program; the next one has the next seed")
    parser.add_argument("--backend", default="interpreter", choices=("interpreter", "numba_cpu", "numba_cuda"))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--programs", type=int, default=0, help="stop after so many; 0: when the time is over")
    parser.add_argument("--save", type=Path, default=Path("tests/regressions"), help="folder of the shrunk failures")
    parser.add_argument("--out", type=Path, help="the record, as JSON; added to where it exists")
    parser.add_argument("--resume", action="store_true", help="begin behind the last seed of the record")
    parser.add_argument("--merge", type=Path, nargs="+", help="add up these records instead of running anything")
    parser.add_argument("--replay", type=Path, help="run the failures of this record again instead")
    parser.add_argument("--limit", type=float, default=120, help="seconds of one program")
    parser.add_argument("--shrink", type=float, default=30, help="seconds for making one failure smaller; 0: none is")
    parser.add_argument("--commit", default="", help="with --merge or --replay: what ran where git could not say")
    return parser


if __name__ == "__main__":
    sys.exit(main())
