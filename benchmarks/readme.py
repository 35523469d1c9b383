"""Fills the generated parts of README.md, so that it shows only what ran: `python benchmarks/readme.py [--check]`.

    <!-- output -->            what the Python block above it prints
    <!-- measured: FILE -->    the table of that results file; nothing while it does not exist
    <!-- end -->               closes either

A results file is a JSON object: `machine`, `versions`, `date` and `command` (strings), `columns` (strings) and `rows`
(lists of as many strings or numbers).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
CODE = re.compile(r"^```python\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
PART = re.compile(r"(<!-- (output|measured: (?P<file>\S+)) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str) -> str:
    """README text with every generated part made anew."""

    def part(found: re.Match[str]) -> str:
        file = found["file"]
        body = table(ROOT / file) if file else output(text[: found.start()])
        return f"{found[1]}{body}{found[4]}"

    return PART.sub(part, text)


def output(before: str) -> str:
    """What the last Python block of `before` prints, as a text block.  Raises CalledProcessError when it fails."""
    code = CODE.findall(before)[-1]
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, timeout=120)
    return f"```text\n{run.stdout.rstrip()}\n```\n"


def table(file: Path) -> str:
    """The Markdown table of a results file and the line that says where it comes from."""
    if not file.exists():
        return ""
    results = json.loads(file.read_text())
    columns, rows = results["columns"], results["rows"]
    lines = [row_text(columns), row_text(["---", *["---:"] * (len(columns) - 1)]), *map(row_text, rows)]
    source = f"{results['machine']}; {results['versions']}; {results['date']}; `{results['command']}`."
    return "\n".join(lines) + f"\n\n{source}\n"


def row_text(cells: list[Any]) -> str:
    return "| " + " | ".join(cell_text(cell) for cell in cells) + " |"


def cell_text(cell: Any) -> str:
    """Strings as they are, numbers with three significant digits and no exponent."""
    if isinstance(cell, str):
        return cell
    return f"{cell:.0f}" if abs(cell) >= 100 else f"{cell:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 where the README is stale")
    check = parser.parse_args().check
    old = README.read_text()
    new = filled(old)
    if check and new != old:
        sys.exit("README.md is stale: run python benchmarks/readme.py")
    README.write_text(new)


if __name__ == "__main__":
    main()
