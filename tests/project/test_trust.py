"""The figures of docs/trust.md are those of the records.  ``python -m tests.project.test_trust`` writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "trust.md"
RESULTS = ROOT / "benchmarks" / "results"
FUZZED = {
    "fuzz_interpreter.json": "interpreter",
    "fuzz_cpu.json": "CPU",
    "fuzz_h200.json": "H200",
}
LISTED = {"large_h200.json": "large arrays", "bits_h200.json": "the same bits"}
WANTED = {"interpreter": 30_000, "CPU": 5_000, "H200": 5_000}
"""Programs that the corpus is meant to reach."""
MARKS = "<!-- records -->\n", "<!-- end of records -->\n"


def read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text())


def lines() -> list[str]:
    """A table of what the fuzzer and the enumeration ran."""
    found = ["| record | ran | wrong | repeat it with |", "|---|---|---|---|"]
    for name, machine in FUZZED.items():
        if not (RESULTS / name).exists():
            found.append(f"| random programs, {machine} | none of {WANTED[machine]:,} wanted | | |")
            continue
        record = read(name)
        commits = ", ".join(dict.fromkeys(run["commit"] for run in record["runs"]))
        ran = f"{record['programs']:,} of {WANTED[machine]:,} programs wanted, at {commits}"
        command = f"{record['runs'][0]['command']}`, seeds in the record"
        found.append(f"| [{machine}](../benchmarks/results/{name}) | {ran} | {wrong(record)} | `{command} |")
    record = read("legality_brute_force.json")
    verdicts = f"{record['schedules']:,} schedules, {record['verdicts']:,} verdicts"
    link = "[enumeration](../benchmarks/results/legality_brute_force.json)"
    found.append(f"| {link} | {verdicts} | {len(record['disagreements'])} | `{record['command']}` |")
    checked = [listed(name, what) for name, what in LISTED.items() if (RESULTS / name).exists()]
    return [*found, operations(), *checked, *tools(), ""]


def listed(name: str, what: str) -> str:
    """What checks that run one after the other on the H200 showed."""
    record = read(name)
    failed = sum(check["outcome"] != "ok" for check in record["checks"].values())
    ran = f"{record['what']}: {len(record['checks'])} checks, at {record['commit']}"
    return f"| [{what}](../benchmarks/results/{name}) | {ran} | {failed} | `{record['command']}` |"


def operations() -> str:
    """What the table of operations did on the H200."""
    record = read("op_table_h200.json")
    counts = record["libraries"].values()
    ran = f"{record['rows_of_the_table']} operations with arrays of {' and of '.join(record['libraries'])}, on the H200"
    link = "[table of operations](../benchmarks/results/op_table_h200.json)"
    assert all(c["ok"] + c["failed"] + c["refused"] == record["rows_of_the_table"] for c in counts)
    return f"| {link} | {ran}, at {record['commit']} | {len(record['failed'])} | `{record['command']}` |"


def tools() -> list[str]:
    """What NVIDIA's tools found on the H200."""
    record = read("sanitizer_h200.json")
    clean = [tool for tool, verdict in record["verdicts"].items() if verdict == "clean"]
    link = "[compute-sanitizer](../benchmarks/results/sanitizer_h200.json)"
    ran = f"{', '.join(record['verdicts'])} over {len(record['corpus'])} programs of every strategy"
    found = f"{len(record['verdicts']) - len(clean)} tools, planted faults found"
    rows = [f"| {link} | {ran} | {found} | `{record['command']}` |"]
    record = read("ncu_h200.json")
    apart = [abs(kernel["measured_over_predicted"] - 1) for kernel in record.get("kernels", [])]
    link = "[hardware counters](../benchmarks/results/ncu_h200.json)"
    ran = f"bytes of main memory of {len(apart)} kernels, at most {100 * max(apart):.1f} % from the price's"
    local = sum(kernel["local_requests"] > 0 for kernel in record["kernels"])
    return [*rows, f"| {link} | {ran} | {local} with local memory | `{record['command']}` |"]


def wrong(record: Any) -> str:
    """How many programs are wrong, were wrong when they ran, and came to no end in the time of one program."""
    told = [str(len(record["failures"]))]
    mended = record.get("mended", [])
    if mended:
        commits = ", ".join(dict.fromkeys(entry["mended at"] for entry in mended))
        told.append(f"{len(mended)} when they ran, right again at {commits}")
    slow = [entry for entry in record.get("unfinished", []) if entry["why"] != "the run was over"]
    if slow:
        told.append(f"{len(slow)} not finished")
    return "; ".join(told)


def page() -> str:
    text = PAGE.read_text()
    start, end = text.index(MARKS[0]) + len(MARKS[0]), text.index(MARKS[1])
    return text[:start] + "\n" + "\n".join(lines()) + "\n" + text[end:]


def test_figures_are_those_of_the_records() -> None:
    assert page() == PAGE.read_text(), "run python -m tests.project.test_trust"


def test_records_hold_no_failure_that_is_still_open() -> None:
    for name in FUZZED:
        if (RESULTS / name).exists():
            assert not read(name)["failures"], name
    assert not read("legality_brute_force.json")["disagreements"]
    assert set(read("sanitizer_h200.json")["verdicts"].values()) == {"clean"}
    for name in LISTED:
        if (RESULTS / name).exists():
            assert {check["outcome"] for check in read(name)["checks"].values()} == {"ok"}, name


if __name__ == "__main__":
    PAGE.write_text(page())
