"""Benchmarks of programs that seeds draw: each by itself, so that one that fails hides no other, and their record."""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Row = Sequence[Any]


def run(
    module: str,
    document: str | None,
    columns: Sequence[str],
    measured: Callable[[int], Row],
    summary: Callable[[Sequence[Row]], str],
    remark: Callable[[Row], str] = lambda row: "",
) -> int:
    """``python -m benchmarks.MODULE FIRST LAST [--save FILE]``: a line per seed, then what they say together; 1 where
    one failed.  `remark`: behind a line that somebody should look at."""
    parser = argparse.ArgumentParser(description=document, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--save", default="", help="results file to write")
    chosen = parser.parse_args()

    import torch

    from benchmarks import gpu

    rows, failed = list[Row](), 0
    for seed in range(chosen.first, chosen.last):
        try:
            rows.append(measured(seed))
            print(*rows[-1], remark(rows[-1]), flush=True)
        except Exception as error:
            failed += 1
            print(seed, "FAILED", type(error).__name__, str(error)[:300], flush=True)
        torch.cuda.empty_cache()
    print(summary(rows))
    if chosen.save:
        record = {
            "machine": gpu.device_name(),
            "versions": gpu.versions(),
            "date": datetime.date.today().isoformat(),
            "command": f"python -m benchmarks.{module} {chosen.first} {chosen.last}",
            "summary": summary(rows),
            "columns": columns,
            "rows": rows,
        }
        Path(chosen.save).write_text(json.dumps(record, indent=1) + "\n")
    return 1 if failed else 0
