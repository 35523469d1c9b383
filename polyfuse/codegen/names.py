"""One place that turns names of users and passes into identifiers of a printed kernel."""

from __future__ import annotations

import builtins
import keyword
import re

from polyfuse.codegen.language import CALLED, VOCABULARY

RESERVED: frozenset[str] = VOCABULARY.union(keyword.kwlist, keyword.softkwlist, dir(builtins))


def function_name(kernel_name: str) -> str:
    """The printed function of a kernel: its own name, unless that is an operation of the language (``exp``)."""
    return f"{kernel_name}_" if kernel_name in CALLED or keyword.iskeyword(kernel_name) else kernel_name


class Namer:
    """Hands out identifiers, each at most once, none of them reserved."""

    def __init__(self) -> None:
        self._taken: set[str] = set(RESERVED)

    def fresh(self, wanted: str) -> str:
        """`wanted` itself where it is a free identifier, else the nearest free spelling."""
        base = re.sub(r"\W", "_", wanted) or "value"
        if base[0].isdigit():
            base = f"v{base}"
        name = base
        if name in RESERVED:
            name = f"{base}_"
        serial = 2
        while name in self._taken:
            name = f"{base}_{serial}"
            serial += 1
        self._taken.add(name)
        return name
