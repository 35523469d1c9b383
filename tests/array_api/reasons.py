"""Why tests of the suite do not pass: sentences for what polyfuse leaves out, and for the rest what the test said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COMPLEX = "needs complex dtypes: polyfuse has none, programs are real, and every use is an error that says so"
VALUES = "needs shapes that depend on values, which a compiled program cannot have"
SUITE = "the suite itself skips it, for every library"

# Reasons for which a test says nothing about polyfuse.
OUTSIDE = (COMPLEX, VALUES, SUITE)

# Functions that the namespace has, as NumPy does, but that are an error in a compiled program.  Tests of their names
# and signatures pass all the same; the record counts them.
ONLY_ERRORS = """fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft eig eigvals
    nonzero unique_all unique_counts unique_inverse unique_values""".split()

# What a message holds, and what it comes from.
_SIGNS: Mapping[str, str] = {
    "complex results": COMPLEX,
    "no complex data types": COMPLEX,
    "dtype complex": COMPLEX,
    "dtype=None not recognised": COMPLEX,  # a special case of a complex function: the suite finds no dtype for it
    "--skips-file": VALUES,
    "Skipped: flaky": SUITE,
}


def reason_of(line: Mapping[str, Any]) -> str:
    """The reason for one outcome that is no pass: ``id``, ``message`` and ``text`` as the recorder wrote them."""
    said = f"{line['message']}\n{line['text']}"
    found = next((reason for sign, reason in _SIGNS.items() if sign in said), None)
    if found is None and "Unsatisfiable" in said and "test_fft.py" in line["id"]:
        found = COMPLEX  # the test draws complex arrays only
    return found or str(line["message"]).partition("\n")[0]


def is_name_of_an_error(test: str) -> bool:
    """Whether a test looks at the name or the signature of one of `ONLY_ERRORS`."""
    name = test.rpartition("[")[2].removesuffix("]").replace(".", "-").rpartition("-")[2]
    return ("test_has_names" in test or "func_signature" in test) and name in ONLY_ERRORS
