"""Printed kernels that differ in names alone: the steps of an unrolled loop, the layers of a network.

    u_1 = load(u_in, at, ROW4)   # f.py:3        v2 = load(v1, v3, v4)
    u_2 = load(u_1_in, at, ROW4)  # f.py:3   ->  v2 = load(v1, v3, v4)
"""

from __future__ import annotations

import re

_BOUND = re.compile(
    r"^def (?P<function>\w+)\((?P<parameters>[\w, ]*)\)|^ *(?P<targets>\w+(?:, \w+)*) = |^ *for (?P<loop>\w+) in ",
    re.MULTILINE,
)
_WORD = re.compile(r"#[^\n]*|\b[A-Za-z_]\w*\b(?P<keyword>=(?!=))?")


def without_names(source: str, beside: str = "") -> str:
    """The text of a module and what is said `beside` it about its names, in which every name that the module binds is
    its number in order of appearance.  Modules with equal texts do the same: names are told apart, nothing else is."""
    bound = {name for match in _BOUND.finditer(source) for part in match.groups() if part for name in part.split(", ")}
    numbers: dict[str, str] = {}

    def renamed(match: re.Match[str]) -> str:
        word = match[0]
        if word.startswith("#"):
            return ""
        if word not in bound:  # an operation, or a keyword, which its sign of equality follows at once
            return word
        return numbers.setdefault(word, f"v{len(numbers)}")

    return _WORD.sub(renamed, f"{source}\n{beside}")
