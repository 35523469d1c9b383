"""Why tests of the suite do not pass: sentences for what polyfuse leaves out, and for the rest what the test said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COMPLEX = "needs complex dtypes: polyfuse has none, programs are real, and every use is an error that says so"
VALUES = "needs shapes that depend on values, which a compiled program cannot have"

# What a message holds, and what it comes from.
_SIGNS: Mapping[str, str] = {
    "complex results": COMPLEX,
    "no complex data types": COMPLEX,
    "dtype complex": COMPLEX,
    "dtype=None not recognised": COMPLEX,  # a special case of a complex function: the suite finds no dtype for it
    "--skips-file": VALUES,
}


def reason_of(line: Mapping[str, Any]) -> str:
    """The reason for one outcome that is no pass: ``id``, ``message`` and ``text`` as the recorder wrote them."""
    said = f"{line['message']}\n{line['text']}"
    found = next((reason for sign, reason in _SIGNS.items() if sign in said), None)
    if found is None and "Unsatisfiable" in said and "complex_dtypes" in said:
        found = COMPLEX  # the test draws complex arrays only
    return found or str(line["message"]).partition("\n")[0]
