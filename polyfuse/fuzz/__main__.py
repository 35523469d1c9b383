"""``python -m polyfuse.fuzz --seconds N --seed S``: random programs until the time is over; 1 if one failed.

``--out FILE`` keeps the record there, rewritten as it grows, and adds to what the file holds; ``--resume`` goes on
behind the last seed that it names.  ``--merge FILE ...`` adds up records of other seeds, machines and days.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from polyfuse.errors import DeviceError
from polyfuse.fuzz.batches import Corpus, batches
from polyfuse.fuzz.carriers import check_machine
from polyfuse.fuzz.record import Record, described, from_json, merged, to_json


def main() -> int:
    options = _parser().parse_args()
    if options.merge:
        record = merged(_read(path) for path in options.merge)
        for run in record.runs:
            run["commit"] = run["commit"] or options.commit
        _write(record, options.out)
        return 0
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
    """The record of this run on top of `before`; written to ``--out`` after every batch."""
    started, own, behind = time.monotonic(), Record(), seed
    total = before
    corpus = Corpus(options.backend, options.save)
    settings = {**vars(options), "seed": seed}
    for batch in batches(corpus, seed, options.processes, options.programs, options.seconds):
        own, behind = merged([own, batch.record]), max(behind, batch.behind)
        own.seconds = time.monotonic() - started
        run = described(settings, (seed, behind), own, own.seconds)
        total = merged([before, own, Record(runs=[run])])
        if options.out is not None:
            _write(total, options.out)
    return total


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
    parser.add_argument("--commit", default="", help="with --merge: what ran where git could not say")
    return parser


if __name__ == "__main__":
    sys.exit(main())
