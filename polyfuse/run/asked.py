"""What code asks of objects but for the attributes that it names: whether they have one, which they are, all they have.

hasattr(self, "bias")     getattr(o, "scale", 1.0)     try: o.gain     except AttributeError: ...
vars(o).values()          self.w_out is self.w_in      a == b          f"{a}"
"""

from __future__ import annotations

import dis
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FunctionType

_BY_NAME = frozenset("hasattr getattr vars __dict__ globals attrgetter methodcaller getattr_static".split())
_MODULES = frozenset("globals vars __dict__ __globals__ f_globals eval exec".split())
_MODULES |= frozenset("modules import_module __import__ getmodule resolve_name".split())
_WHOLE = frozenset("vars __dict__ astuple asdict".split())
_WRITTEN = frozenset("repr str format print __repr__ __str__ __format__".split())
_COMPARED = frozenset("__eq__ __ne__ __hash__ hash index count remove set dict frozenset sorted min max".split())
_LOADS = frozenset("LOAD_ATTR LOAD_METHOD LOAD_GLOBAL LOAD_NAME LOAD_SUPER_ATTR".split())
_GLOBALS = frozenset("LOAD_GLOBAL LOAD_NAME".split())
_WHETHER = ("has_whole", "tells_apart", "compares", "writes", "finds_modules")


@dataclass(frozen=True, slots=True)
class Asked:
    """`absent`, `absent_globals`: names that code goes on without; `has_whole`: it may use every attribute there is;
    `tells_apart`: it asks which object something is; `compares`, `writes`: by what their classes say; `finds_modules`:
    globals of modules that it computes."""

    absent: frozenset[str] = frozenset()
    absent_globals: frozenset[str] = frozenset()
    has_whole: bool = False
    tells_apart: bool = False
    compares: bool = False
    writes: bool = False
    finds_modules: bool = False


def asked(functions: Iterable[FunctionType]) -> Asked:
    """Of all of them together."""
    found = [_of_code(function.__code__) for function in functions]
    return Asked(
        frozenset().union(*[one.absent for one in found]),
        frozenset().union(*[one.absent_globals for one in found]),
        *(any(getattr(one, name) for one in found) for name in _WHETHER),
    )


def nested(code: CodeType) -> Iterator[CodeType]:
    """It, and the functions and comprehensions written inside of it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


@lru_cache(maxsize=1 << 12)
def _of_code(code: CodeType) -> Asked:
    names, texts, opcodes = set[str](), set[str](), set[str]()
    absent, absent_globals = set[str](), set[str]()
    for part in nested(code):
        names.update(part.co_names)
        texts.update(text for text in part.co_consts if type(text) is str and text.isidentifier())
        tried = [range(entry.start, entry.end) for entry in getattr(dis.Bytecode(part), "exception_entries", ())]
        for at in dis.get_instructions(part):
            opcodes.add(f"{at.opname} {at.argval}" if at.opname == "IS_OP" else at.opname)
            if at.opname in _LOADS and type(at.argval) is str and any(at.offset in span for span in tried):
                (absent_globals if at.opname in _GLOBALS else absent).add(at.argval)
    by_name = texts if names & _BY_NAME else set()
    return Asked(
        frozenset(absent | by_name),
        frozenset(absent_globals | (by_name if "globals" in names else set())),
        bool(names & _WHOLE),
        any(op.startswith("IS_OP") for op in opcodes),
        bool(opcodes & {"COMPARE_OP", "CONTAINS_OP"} or names & _COMPARED),
        bool(opcodes & {"FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"} or names & _WRITTEN),
        bool(names & _MODULES),
    )
