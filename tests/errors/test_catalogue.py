"""Every error of the catalogue: its class, its whole text, nothing of isl or Numba in it, nothing left behind.

``python -m tests.errors.test_catalogue`` rewrites the goldens after a deliberate change.
"""

from __future__ import annotations

import importlib.util
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest

from polyfuse.errors import PolyfuseError
from tests.errors.catalogue import CASES, WITHOUT_CUDA, Y, add, pf
from tests.frontend.test_errors import CASES as TRACED
from tests.frontend.test_errors import GOLDEN as TRACED_GOLDEN
from tests.frontend.test_errors import read_goldens

GOLDEN = Path(__file__).with_name("catalogue.txt")
ROOT = str(Path(__file__).parents[2])


def message(name: str) -> str:
    """Class and text of what a case raises; the lines of its frames where that is no error of polyfuse."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            CASES[name]()
        except PolyfuseError as error:
            return f"{type(error).__name__}: {error}".replace(ROOT, "").rstrip()
        except Exception:
            return traceback.format_exc()
    return "no error"


def skip_with_cuda(name: str) -> None:
    if name in WITHOUT_CUDA and importlib.util.find_spec("numba_cuda") is not None:
        pytest.skip("the CUDA extra is installed")


@pytest.mark.parametrize("name", CASES)
def test_error(name: str) -> None:
    skip_with_cuda(name)
    told = message(name)
    assert told == read_goldens(GOLDEN)[name]


@pytest.mark.parametrize("name", CASES)
def test_no_traceback_of_another_library_comes_first(name: str) -> None:
    skip_with_cuda(name)
    try:
        CASES[name]()
    except PolyfuseError as error:
        assert error.__cause__ is None or isinstance(error.__cause__, PolyfuseError)
        shown = "".join(traceback.format_exception(error))
        assert "islpy" not in shown and "numba/core" not in shown
        assert "During handling" not in shown and "direct cause" not in shown
    else:
        pytest.fail("no error")


def test_the_catalogue_is_large_and_complete() -> None:
    goldens = read_goldens(GOLDEN)
    assert list(goldens) == list(CASES)
    assert len(goldens) >= 60
    kinds = {text.split(":")[0] for text in (*goldens.values(), *read_goldens(TRACED_GOLDEN).values())}
    wanted = "ArgumentError DTypeError DeviceError IndexFault IndexingError OptionError ScheduleError ShapeError"
    assert kinds >= {*wanted.split(), "SpecError", "StalePlanError", "TraceError", "UnsupportedError"}
    assert len(TRACED) >= 60


def test_functions_still_work_after_their_errors() -> None:
    f = pf.jit(add)
    for wrong in (np.ones(5, np.float32), {1}, np.array(["a"])):
        with pytest.raises(PolyfuseError):
            f(wrong, Y)
        assert np.array_equal(f(Y, Y), Y + Y)


if __name__ == "__main__":
    GOLDEN.write_text("\n".join(f"=== {name}\n{message(name)}\n" for name in CASES))
