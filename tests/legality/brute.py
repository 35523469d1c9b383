"""Check many random schedules against enumeration: ``python -m tests.legality.brute --count 10000``."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections import Counter
from datetime import date
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

from polyfuse.schedule import Finish
from polyfuse.verdict import Kind
from tests.legality.cases import Case, random_case
from tests.legality.compare import FORM, disagreements
from tests.legality.derivations import checks


def check(seed: int, merged: bool = False) -> tuple[Case | None, list[str], Counter[str]]:
    """One random case: itself, where rules and enumeration disagree, and what the rules said.  `merged`: only one whose
    blocks merge their shares into the result."""
    case = random_case(Random(seed), "sums" if merged else "")
    if case is None or merged and not case.schedule.filled:
        return None, [], Counter()
    wrong, found = disagreements(case)
    told = Counter(f"{name} {verdict.kind.value}" for name, verdict in found.items())
    for derived, fault in checks(case) if all(found[name] for name in FORM) else ():
        told[f"{derived} derived"] += 1
        if fault:
            wrong.append(f"{derived} derived: {fault}")
    verdict = "legal" if all(v.kind is Kind.LEGAL for v in found.values()) else "illegal"
    told[f"schedule {verdict}"] += 1
    if any(isinstance(item, Finish) for item in case.schedule.order):
        told[f"schedule with an election {verdict}"] += 1
    if case.schedule.filled:
        told[f"schedule with atomics {verdict}"] += 1
    return case, wrong, told


def run(count: int, seed: int, show: int, merged: bool = False) -> dict[str, Any]:
    """`count` schedules that could be placed, from consecutive seeds."""
    started = time.perf_counter()
    told: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    wrong: list[dict[str, Any]] = []
    checked = tried = 0
    while checked < count:
        case, faults, verdicts = check(seed + tried, merged)
        tried += 1
        if case is None:
            continue
        checked += 1
        told += verdicts
        kinds[case.kind] += 1
        changes.update(case.faults or ("none",))
        if faults:
            wrong.append({"seed": seed + tried - 1, "faults": faults})
            if len(wrong) <= show:
                print(seed + tried - 1, case.kind, case.faults, faults, flush=True)
    return {
        "schedules": checked,
        "verdicts": sum(n for key, n in told.items() if not key.startswith("schedule")),
        "disagreements": wrong,
        "by rule": dict(sorted(told.items())),
        "programs": dict(sorted(kinds.items())),
        "changes": dict(sorted(changes.items())),
        "seeds": [seed, seed + tried - 1],
        "seconds": round(time.perf_counter() - started, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="schedules to check")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--show", type=int, default=20, help="disagreements to print")
    parser.add_argument("--merged", action="store_true", help="only schedules whose blocks merge their shares")
    parser.add_argument("--out", type=Path, help="write the record here as JSON")
    options = parser.parse_args()
    record = {
        "what": "verdicts of every legality rule against enumeration of all instances",
        "command": f"python -m tests.legality.brute --count {options.count} --seed {options.seed}"
        + " --merged" * options.merged,
        "date": date.today().isoformat(),
        "versions": {"python": platform.python_version(), **{n: version(n) for n in ("islpy", "numpy")}},
        **run(options.count, options.seed, options.show, options.merged),
    }
    text = json.dumps(record, indent=2) + "\n"
    if options.out is not None:
        options.out.write_text(text)
    print(text)
    return 1 if record["disagreements"] else 0


if __name__ == "__main__":
    sys.exit(main())
