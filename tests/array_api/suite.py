"""A copy of the suite that runs without complex dtypes.

The suite lets a namespace leave dtypes out (``ARRAY_API_TESTS_SKIP_DTYPES``, or by not having them), and most of it
minds.  Two module-level lines take for granted that there is a complex one.  They are replaced in the copy; the record
names both.
"""

from __future__ import annotations

import shutil
from pathlib import Path

SKIPPED_DTYPES = "complex64,complex128"

# Tests of shapes that depend on values.  The suite's --disable-data-dependent-shapes leaves out isin with them.
SKIPPED_TESTS = """
array_api_tests/test_array_object.py::test_getitem_masking
array_api_tests/test_searching_functions.py::test_nonzero
array_api_tests/test_set_functions.py::test_unique_all
array_api_tests/test_set_functions.py::test_unique_counts
array_api_tests/test_set_functions.py::test_unique_inverse
array_api_tests/test_set_functions.py::test_unique_values
"""

# File, what it says, what it says in the copy.
REPLACED = (
    (
        "array_api_tests/dtype_helpers.py",
        "[(dt, dtype_nbits[dt]) for dt in complex_dtypes], key=",
        "[(dt, dtype_nbits[dt]) for dt in complex_dtypes] or [(None, 0)], key=",
    ),
    (
        "array_api_tests/test_signatures.py",
        "cmplx_name = dh.dtype_to_name[dh.widest_complex_dtype]",
        'cmplx_name = "complex128"',
    ),
)


def copied(suite: Path, target: Path) -> Path:
    """The checkout at `suite`, copied into `target` with the lines replaced and ``skips.txt``, which the suite reads.

    Raises ValueError where a line is not there.
    """
    copy = target / "suite"
    shutil.copytree(suite, copy, ignore=shutil.ignore_patterns(".git", ".hypothesis", "__pycache__", "*_cache"))
    for name, before, after in REPLACED:
        file = copy / name
        text = file.read_text()
        if text.count(before) != 1:
            raise ValueError(f"{name} does not say {before!r} once: is this another version of the suite?")
        file.write_text(text.replace(before, after))
    (copy / "skips.txt").write_text(SKIPPED_TESTS)
    return copy
