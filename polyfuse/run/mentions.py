"""Names in the code of a function: of globals, of attributes, and constants that may be keys."""

from __future__ import annotations

import dis
from collections.abc import Mapping
from functools import lru_cache
from types import CodeType, MappingProxyType
from typing import Any

from polyfuse.run.asked import nested

_OF_ATTRIBUTES = frozenset("LOAD_ATTR LOAD_METHOD LOAD_SUPER_ATTR STORE_ATTR DELETE_ATTR".split())
_OF_CLASSES = frozenset("STORE_NAME DELETE_NAME".split())  # what a class body binds


@lru_cache(maxsize=1 << 12)
def mentioned(code: CodeType) -> Mapping[Any, None]:
    """Names of globals and attributes in `code`, and its constants that may be keys."""
    found = dict[Any, None]()
    for part in nested(code):
        found |= dict.fromkeys(part.co_names)
        for constant in part.co_consts:
            if type(constant) in (str, int):
                found[constant] = None
                if type(constant) is str and "attrgetter" in part.co_names:
                    found |= dict.fromkeys(constant.split("."))
    return MappingProxyType(found)


@lru_cache(maxsize=1 << 12)
def global_names(code: CodeType) -> Mapping[Any, None]:
    """Names that `code` may look up in its globals.  Where it imports, which may be its own module, all count."""
    found = dict[Any, None]()
    for at in (at for part in nested(code) for at in dis.get_instructions(part)):
        if at.opname == "IMPORT_NAME":
            return mentioned(code)
        if at.opcode in dis.hasname and at.opname not in _OF_ATTRIBUTES | _OF_CLASSES:
            found[at.argval] = None
    return MappingProxyType(found)
