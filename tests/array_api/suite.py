"""A copy of the suite that runs without complex dtypes.

The suite lets a namespace leave dtypes out (``ARRAY_API_TESTS_SKIP_DTYPES``, or by not having them), and most of it
minds.  Two module-level lines take for granted that there is a complex one.  They are replaced in the copy; the record
names both.
"""

from __future__ import annotations

import shutil
from pathlib import Path

SKIPPED_DTYPES = "complex64,complex128"

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
    """The checkout at `suite`, copied into `target` with the lines replaced.  Raises ValueError where they are not."""
    copy = target / "suite"
    shutil.copytree(suite, copy, ignore=shutil.ignore_patterns(".git", ".hypothesis", "__pycache__", "*_cache"))
    for name, before, after in REPLACED:
        file = copy / name
        text = file.read_text()
        if text.count(before) != 1:
            raise ValueError(f"{name} does not say {before!r} once: is this another version of the suite?")
        file.write_text(text.replace(before, after))
    return copy
