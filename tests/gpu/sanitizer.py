"""`compute-sanitizer` over kernels of every strategy: `python -m tests.gpu.sanitizer [--save FILE]`, on a CUDA device.

Each of memcheck, racecheck, initcheck and synccheck runs the corpus, and a kernel with a fault planted for it.  A tool
counts as clean only where all programs ran under it, agreed with NumPy, its summary reports nothing, and it found its
planted fault.  Where the machine refuses a tool, the record says so.  Exits with 1 unless all are clean.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.counters import device_name, without_folders
from polyfuse.fuzz.record import commit, versions

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
PLACES = ("/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer", "/opt/nvidia/compute-sanitizer")
WORKERS = 6  # processes that compile the corpus before any tool runs, so that tools see cached kernels only
LIMIT = 80  # seconds for one run of a tool
FOUND = 9  # exit status that the tool is asked for where it reports something


@dataclass(frozen=True)
class Run:
    """One program under one tool: its command, exit status, the tool's own summary, the end of its log."""

    command: str
    status: int
    ran: bool
    summary: str
    log: str


def find_tool() -> str | None:
    """The path of compute-sanitizer."""
    return shutil.which("compute-sanitizer", path=os.pathsep.join([os.environ.get("PATH", ""), *PLACES]))


def under(path: str, tool: str, module: list[str], cache: str) -> Run:
    """Run a module of the tests under a tool."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        options = ["--tool", tool, "--error-exitcode", str(FOUND), "--print-limit", "5", "--log-file", str(log)]
        if tool == "memcheck":
            options += ["--report-api-errors", "no"]  # what libraries ask the driver in vain is no fault of a kernel
        command = [path, *options, sys.executable, "-m", *module]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=LIMIT, check=False, cwd=ROOT, env=environment(cache)
            )
            status, text, said = done.returncode, done.stdout, done.stdout[-500:] + done.stderr[-1500:]
        except subprocess.TimeoutExpired:
            status, text, said = -1, "", f"no end within {LIMIT} s"
        found = log.read_text(errors="replace") if log.exists() else ""
    shown = re.sub(re.escape(str(log)), "LOG", " ".join(["compute-sanitizer", *options, "python", "-m", *module]))
    lines = [line for line in found.splitlines() if "SUMMARY" in line]
    ran = text.strip().endswith(("launched", "all agree with NumPy"))
    return Run(shown, status, ran, lines[-1].strip("= ") if lines else "", _short(found if ran else found + said))


def _short(text: str) -> str:
    """The beginning of a log, without addresses of this run."""
    return re.sub(r"0x[0-9a-f]+", "0x..", "\n".join(text.splitlines()[:14]))[:1500]


def environment(cache: str) -> dict[str, str]:
    """With a disk cache of its own."""
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "POLYFUSE_CACHE": cache, "PYTHONPATH": paths}


def run_corpus(part: int = 0, parts: int = 1) -> None:
    """Run every `parts`-th program of the corpus on Numba's device arrays: they are allocated one by one, so that a
    tool sees the end of each."""
    from numba import cuda

    from tests.gpu.corpus import CORPUS

    for sample in CORPUS[part::parts]:
        results = sample.jitted()(*map(cuda.to_device, sample.arrays()))
        several = isinstance(results, tuple)
        host = tuple(r.copy_to_host() for r in (results if several else (results,)))
        sample.check(host if several else host[0])
    print("all agree with NumPy", flush=True)


def compile_corpus(cache: str) -> str:
    """Compile and run the corpus without a tool, in several processes; empty, or what went wrong."""
    own = [sys.executable, "-m", "tests.gpu.sanitizer", "--part"]
    begun = [
        subprocess.Popen([*own, f"{k}/{WORKERS}"], cwd=ROOT, env=environment(cache), stderr=subprocess.PIPE, text=True)
        for k in range(WORKERS)
    ]
    ends = [(process.communicate()[1], process.returncode) for process in begun]
    return "\n".join(error[-1500:] for error, status in ends if status)


def verdict(corpus: Run, planted: Run) -> str:
    """Clean, what was found, or why nothing is known."""
    if not corpus.summary or not corpus.ran:
        return "refused or failed: nothing is known"
    if corpus.status or not re.search(r": 0 (errors|hazards)", corpus.summary):
        return "faults found"
    if not planted.summary or re.search(r": 0 (errors|hazards)", planted.summary):
        return "the planted fault was not found: nothing is known"
    return "clean"


def record(command: list[str]) -> dict[str, object]:
    """Everything that a run found."""
    from tests.gpu.corpus import CORPUS

    path = find_tool()
    facts: dict[str, object] = {
        "command": "python -m tests.gpu.sanitizer " + without_folders(command),
        "date": datetime.date.today().isoformat(),
        "machine": device_name(),
        "versions": versions("polyfuse", "numba", "numba-cuda", "numpy", "islpy"),
        "commit": commit(),
        "corpus": [{"name": s.name, "strategy": s.strategy, "shapes": s.shapes, "dtype": s.dtype} for s in CORPUS],
    }
    if path is None:
        return facts | {"verdicts": dict.fromkeys(TOOLS, "compute-sanitizer is not on this machine")}
    facts["version"] = (
        subprocess.run([path, "--version"], capture_output=True, text=True).stdout.strip().splitlines()[-1]
    )
    with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(2 * len(TOOLS)) as pool:
        facts["without a tool"] = compile_corpus(cache) or "all agree with NumPy"
        corpora = {t: pool.submit(under, path, t, ["tests.gpu.sanitizer", "--part", "0/1"], cache) for t in TOOLS}
        planted = {t: pool.submit(under, path, t, ["tests.gpu.planted", t], cache) for t in TOOLS}
        facts["verdicts"] = {t: verdict(corpora[t].result(), planted[t].result()) for t in TOOLS}
        facts["runs"] = {
            t: {"corpus": asdict(corpora[t].result()), "planted fault": asdict(planted[t].result())} for t in TOOLS
        }
    return facts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.sanitizer")
    parser.add_argument("--save", help="results file to write")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        run_corpus(*map(int, arguments.part.split("/")))
        return 0
    found = record(sys.argv[1:])
    if arguments.save:
        Path(arguments.save).write_text(json.dumps(found, indent=1) + "\n")
    verdicts = found["verdicts"]
    assert isinstance(verdicts, dict)
    print(json.dumps({"verdicts": verdicts, "without a tool": found.get("without a tool")}, indent=1))
    return 0 if set(verdicts.values()) == {"clean"} else 1


if __name__ == "__main__":
    sys.exit(main())
