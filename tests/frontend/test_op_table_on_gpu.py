"""The runner of the operation table in many processes, with the CPU back end: nothing is lost, deaths are failures."""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path

import numpy as np
import pytest

from polyfuse.fuzz.carriers import OnHost
from tests.frontend import op_table_on_gpu
from tests.frontend.op_draws import Array
from tests.frontend.op_rows import CASES


@pytest.mark.parametrize(
    "array",
    [np.arange(24.0).reshape(4, 6)[::-1, ::2], np.arange(6).reshape(2, 3).T, np.zeros((0, 3), "f2"), np.array(True)],
)
def test_arrays_keep_their_strides(array: Array) -> None:
    held = op_table_on_gpu.held(OnHost(), array)
    assert held.dtype == array.dtype and np.array_equal(held, array) and not np.shares_memory(held, array)
    assert held.strides == array.strides or not array.size


def test_every_row_has_an_outcome_and_the_record_counts_them() -> None:
    rows = [k for k, row in enumerate(CASES) if row.text in ("np.fabs(x)", "np.reciprocal(x)", "np.triu(x)")]
    assert len(rows) >= 3
    found = op_table_on_gpu.outcomes([(row, "numpy") for row in rows], "numba_cpu", {"seed": 0, "times": 2}, 2, 300)
    assert [(o.row, o.outcome, o.text) for o in found] == [(row, "ok", "") for row in rows]
    options = argparse.Namespace(
        libraries=["numpy"], backend="numba_cpu", processes=2, seconds=300, seed=0, times=2, commit="0123"
    )
    written = op_table_on_gpu.record(found, options, 1.0)
    assert written["libraries"] == {"numpy": {"rows": len(rows), "ok": len(rows), "refused": 0, "failed": 0}}
    assert written["failed"] == [] and written["rows_of_the_table"] == len(CASES)


def test_a_process_that_dies_fails_the_row_that_it_was_at(tmp_path: Path) -> None:
    log, done = tmp_path / "log", {"row": 5, "library": "torch", "outcome": "ok", "text": "", "seconds": 0.5}
    log.write_text("\n".join(map(json.dumps, [{"begins": 0}, {"ends": 0, **done}, {"begins": 1}])))
    tasks = [(5, "torch"), (6, "torch")]
    found = list(op_table_on_gpu.read_log(log, tasks, died=True))
    assert [(o.row, o.outcome, o.text) for o in found] == [(5, "ok", ""), (6, "failed", "the process died")]
    assert len(list(op_table_on_gpu.read_log(log, tasks, died=False))) == 1  # the time was over


@pytest.mark.fails_inside
def test_an_internal_failure_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_inside(*_: object) -> str:
        logging.getLogger("polyfuse.failure").error("f runs without fusion")
        return "ok"

    monkeypatch.setattr(op_table_on_gpu, "check", fails_inside)
    found = op_table_on_gpu.outcome(0, "numpy", "interpreter", 0)
    assert (found.outcome, found.text) == ("failed", "f runs without fusion")
