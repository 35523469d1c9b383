"""Where a function may find values besides its arguments: globals, closures, defaults, and what hangs on them.

Read off the code: a value counts when the code of the function, or of a function of the user's that this one may
reach, mentions its name.  Reached are helpers in other modules, jitted functions, methods, what tables and partial
applications hold.
"""

from __future__ import annotations

import builtins
import operator
import sys
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property, partial, partialmethod
from inspect import getattr_static
from itertools import islice
from typing import Any

import numpy as np

from polyfuse.installed import is_fixed, is_users
from polyfuse.run.asked import Asked, asked
from polyfuse.run.entries import (
    ABSENT,
    BUFFERS,
    CONTAINERS,
    MAPPINGS,
    REFERENCES,
    elements,
    entries,
    is_plain,
    kept_in,
    length,
    members,
    referred,
)
from polyfuse.run.mentions import global_names, mentioned

_DEPTH = 24  # how far attributes and items are followed
_ITEMS = 256  # entries of a container that are read one by one; more are compared together
_NESTED = 4096  # of those, that are looked into, because they are no constants
_FUNCTIONS = 256  # functions of the user's that are followed
LOOKED_INTO = (types.FunctionType, type, types.ModuleType)
"""Arguments that are part of the program by what they are, not by what they hold."""
_DESCRIPTORS = (staticmethod, classmethod, property, cached_property, partialmethod)
_MAKING = ("__init__", "__new__")
_SILENT = frozenset(("__reduce__", *_MAKING))
_CLASS_OF = ("type", "__class__")  # in code that may make an object of a class that it does not name
_COMPARING = frozenset("__eq__ __ne__ __hash__".split())
_WRITING = frozenset("__repr__ __str__ __format__".split())


@dataclass(frozen=True, slots=True)
class Cell:
    """A place that holds a value: an entry of a namespace, a closure's cell, an attribute or item of what they hold.
    `name`: no other place has it; `shown`: as the user writes it.  `is_fixed`: it always holds the same object."""

    read: Callable[[], Any]
    name: str
    shown: str
    is_fixed: bool = False


@dataclass(frozen=True, slots=True)
class Reach:
    """All places that a function may read, and the code of the user's that it may run."""

    cells: tuple[Cell, ...]
    functions: tuple[types.FunctionType, ...]


def reach(
    function: Any, statics: Mapping[str, Any], named: Mapping[str, Collection[int]] = types.MappingProxyType({})
) -> Reach:
    """What `function` may read and run.  `statics`: arguments that it takes as they are, by name; `named`: attributes
    besides those in the code, and the identities of objects that have none."""
    roots = [_fixed(value, name) for name, value in statics.items()]
    roots += _applied(function)
    known = {id(f): f for f in _code(function, _Wanted())}
    names = set(named)
    while True:
        every = {name: None for f in known.values() for name in mentioned(f.__code__)} | dict.fromkeys(names)
        wanted = _Wanted(every, asked(known.values()), named)
        found, seen = dict[str, Cell](), set[int]()
        for root in (*roots, *(cell for f in known.values() for cell in _of_function(f, wanted.asked))):
            if root.name not in found:
                found |= {part.name: part for part in _parts(root, wanted, _DEPTH, seen)}
        values = (*(cell.read() for cell in found.values()), function)
        more = {id(f): f for value in values for f in _code(value, wanted) if id(f) not in known}
        further = {name for value in values for name in _names_held(value)} - names
        if not (more or further) or len(known) >= _FUNCTIONS:
            apart = [_which_are_the_same(found.values())] if wanted.asked.tells_apart else []
            return Reach((*found.values(), *apart), tuple(known.values()))
        known |= more
        names |= further


def _names_held(value: Any) -> Iterator[str]:
    """Names of attributes that a function of C code looks up: ``attrgetter("a.b")``."""
    if isinstance(value, (operator.attrgetter, operator.methodcaller)):
        texts = [text for part in value.__reduce__()[1:] for text in part if isinstance(text, str)]
        yield from (name for text in texts for name in text.split("."))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Names of attributes, and constants that may be keys, that the code of a function mentions; what else it asks;
    names that it computes, and who has nothing there."""

    mentioned: Mapping[Any, None] = field(default_factory=dict)
    asked: Asked = Asked()
    named: Mapping[str, Collection[int]] = field(default_factory=dict)

    def absent(self, value: Any) -> Iterator[str]:
        """Names under which code may ask `value` for what it does not have."""
        yield from self.asked.absent
        yield from (name for name, lacking in self.named.items() if id(value) in lacking)

    def has(self, name: str) -> bool:
        return self.asked.has_whole or name in self.mentioned

    def makes(self, value: Any) -> bool:
        """Whether code that has `value` may make objects of its class."""
        return isinstance(value, type) or any(name in self.mentioned for name in _CLASS_OF)

    def silent(self, name: str, method: Any) -> bool:
        """Whether a special method is called nowhere.  What decorators write reads more than counts."""
        if name not in _COMPARING | _WRITING:
            return name in _SILENT
        is_called = self.asked.compares if name in _COMPARING else self.asked.writes
        return not is_called or getattr(getattr(method, "__code__", None), "co_filename", "<").startswith("<")


def constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _fixed(value: Any, shown: str) -> Cell:
    return Cell(constant(value), f"static {id(value)}", shown, is_fixed=True)


# ---------------------------------------------------------------------------------------------- code


def _code(value: Any, wanted: _Wanted) -> Iterator[types.FunctionType]:
    """Functions of the user's that run when `value` is called, or used under the names that are `wanted`."""
    if isinstance(value, types.FunctionType):
        if is_users(value.__module__ or "", value.__code__.co_filename):
            yield value
    elif isinstance(value, types.MethodType):
        yield from _code(value.__func__, wanted)
    elif isinstance(value, (partial, partialmethod)):
        yield from _code(value.func, wanted)
    elif isinstance(value, (staticmethod, classmethod)) or _is_wrapped(value):
        yield from _code(value.__wrapped__, wanted)
    elif isinstance(value, property):
        yield from _code(value.fget, wanted)
    elif isinstance(value, cached_property):
        yield from _code(value.func, wanted)
    else:
        yield from _methods(value, wanted)


def _is_wrapped(value: Any) -> bool:
    """Whether `value` is a jitted or a caching function."""
    kind = type(value)
    return kind.__module__.partition(".")[0] in ("polyfuse", "functools") and hasattr(value, "__wrapped__")


def _methods(value: Any, wanted: _Wanted) -> Iterator[types.FunctionType]:
    for base in _users_classes(value):
        names = [n for n, m in vars(base).items() if n.startswith("__") and not wanted.silent(n, m)]
        names += _MAKING if wanted.makes(value) else ()
        for name in (*names, *(n for n in wanted.mentioned if type(n) is str)):
            method = vars(base).get(name)
            if isinstance(method, _DESCRIPTORS) or is_code(method) or (is_of_users(method) and _is_descriptor(method)):
                yield from _code(method, _Wanted())


def _users_classes(value: Any) -> list[type]:
    """Those classes of a value that the user wrote: where its attributes are looked up, the first one wins."""
    return [k for k in _classes(value) if is_users(k.__module__, _file_of(k))]


def _classes_of_libraries(value: Any) -> list[type]:
    """Those of other packages' in which something may change."""
    others = [k for k in _classes(value) if not is_fixed(k.__module__)]
    return [k for k in others if not is_users(k.__module__, _file_of(k))]


def _classes(value: Any) -> tuple[type, ...]:
    kind: type = type(value)
    return (*value.__mro__, *kind.__mro__) if isinstance(value, type) else kind.__mro__


def _file_of(kind: type) -> str | None:
    return getattr(sys.modules.get(kind.__module__), "__file__", None)


def users_classes_in(argument: Any, depth: int = _DEPTH) -> Iterator[type]:
    """The classes of the user's that the containers in an argument are of: their attributes are no part of it."""
    if isinstance(argument, dict):
        below: Iterable[Any] = argument.values()
    elif isinstance(argument, (list, tuple)):
        below = argument
    elif is_dataclass(argument) and not isinstance(argument, type):
        below = [getattr(argument, field.name, None) for field in fields(argument)]
    else:
        return
    if is_of_users(argument):
        yield type(argument)
    for part in below if depth else ():
        yield from users_classes_in(part, depth - 1)


def _is_descriptor(value: Any) -> bool:
    return hasattr(type(value), "__get__")


def is_code(value: Any) -> bool:
    """Whether `value` is a function in one of Python's forms."""
    return isinstance(value, (types.FunctionType, types.MethodType, partial)) or _is_wrapped(value)


def is_of_users(value: Any) -> bool:
    """Whether `value` is an object of a class of the user's, which is looked into."""
    return is_users(type(value).__module__, _file_of(type(value)))


# ---------------------------------------------------------------------------------------------- places


def _applied(function: Any) -> list[Cell]:
    """What a method, a partial application or an object that is called brings along."""
    if isinstance(function, partial):
        below = [(f"argument {k}", value) for k, value in enumerate(function.args)]
        below += function.keywords.items()
        return [*_applied(function.func), *(_fixed(v, n) for n, v in below)]
    if isinstance(function, types.MethodType):
        holder = function.__self__
        return [*_applied(function.__func__), _fixed(holder, "self")]
    is_called = isinstance(getattr_static(type(function), "__call__", None), types.FunctionType)
    is_called = is_called and not _is_wrapped(function)
    return [_fixed(function, "self")] if is_called else []


def _of_function(function: types.FunctionType, asked: Asked) -> Iterator[Cell]:
    """Closure cells, globals and changeable defaults of a function."""
    code = function.__code__
    for cell, name in zip(function.__closure__ or (), code.co_freevars, strict=True):
        yield _closed(cell, name)
    space = function.__globals__
    names = mentioned(code) if asked.finds_modules else global_names(code)
    for name in (*names, *(n for n in asked.absent_globals if not hasattr(builtins, n))):
        if type(name) is str and (name in space or name in asked.absent_globals):
            yield Cell(_entry(space, name), f"{id(space)}.{name}", name)
    defaults = function.__defaults__ or ()
    have_one = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    given = [*zip(have_one, defaults, strict=True), *(function.__kwdefaults__ or {}).items()]
    for name, value in given:
        if not is_plain(value):
            yield _fixed(value, name)


def _parts(cell: Cell, wanted: _Wanted, depth: int, seen: set[int]) -> Iterator[Cell]:
    """`cell`, and what it holds: items, and attributes whose names occur in the code."""
    yield cell
    value = cell.read()
    if isinstance(value, types.FunctionType):
        below = [_below(cell, n) for n in value.__dict__ if n in wanted.mentioned]
        below += [_below(cell, n) for n in wanted.absent(value) if not hasattr(value, n)]
    elif _is_wrapped(value) and isinstance(inner := value.__wrapped__, types.FunctionType):
        wrapped = Cell(_attribute(cell.read, "__wrapped__"), f"{cell.name}.__wrapped__", cell.shown)
        below = [_below(wrapped, n) for n in inner.__dict__ if n in wanted.mentioned]
    elif depth == 0 or id(value) in seen:
        return
    elif isinstance(value, partial):
        below = [_below(cell, "func"), *_pairs(cell, "args", value.args), *_pairs(cell, "keywords", value.keywords)]
    elif isinstance(value, types.MethodType) or _is_bound(value):
        below = [_below(cell, "__self__")]
    else:
        below = [*_items(cell, value, wanted.mentioned), *_attributes_of(cell, value, wanted)]
        below += _methods_of(cell, value, wanted)
    seen.add(id(value))
    for part in below:
        yield from _parts(part, wanted, depth - 1, seen)


def _attributes_of(cell: Cell, value: Any, wanted: _Wanted) -> Iterator[Cell]:
    """Attributes that count, those that something is not there under, and of one whose code may use all, which are."""
    below = _kept if isinstance(type(value).__getattribute__, types.FunctionType) else _below
    if isinstance(value, types.ModuleType) and not _is_users_module(value):
        yield from (_below(cell, n) for n in _values(value) if n in wanted.mentioned)
        return
    held = [n for n in _attributes(value) if wanted.has(n)]
    held += [n for n in _held_in(_classes_of_libraries(value)) if n in wanted.mentioned]
    yield from (below(cell, n) for n in dict.fromkeys(held))
    if not hasattr(value, "__dict__") or hasattr(type(value), "__getattr__"):  # which is code that is followed
        return
    yield from (_below(cell, n) for n in wanted.absent(value) if getattr_static(value, n, ABSENT) is ABSENT)
    if wanted.asked.has_whole and not isinstance(value, types.ModuleType):
        names, read = partial(entries, is_whole=False), cell.read
        yield Cell(lambda: names(getattr(read(), "__dict__", None)), f"vars({cell.name})", f"vars({cell.shown})")


def _which_are_the_same(cells: Iterable[Cell]) -> Cell:
    """Which of the objects that places hold are one and the same."""
    lasting = [c.read for c in cells if not is_plain(value := c.read()) and value is c.read()]

    def read() -> tuple[int, ...]:
        first = dict[int, int]()
        return tuple([first.setdefault(id(one()), position) for position, one in enumerate(lasting)])

    return Cell(read, "which are the same", "which objects are the same")


def _below(cell: Cell, name: str) -> Cell:
    return Cell(_attribute(cell.read, name), f"{cell.name}.{name}", f"{cell.shown}.{name}")


def _kept(cell: Cell, name: str) -> Cell:
    """An attribute as it is kept, whatever code of the user's makes of the name: that code is followed."""
    read = cell.read

    def kept() -> Any:
        try:
            return object.__getattribute__(read(), name)
        except AttributeError:
            return ABSENT

    return Cell(kept, f"{cell.name}.{name}", f"{cell.shown}.{name}")


def _pairs(cell: Cell, name: str, values: Any) -> Iterator[Cell]:
    """The arguments that a partial application holds."""
    for key in values if isinstance(values, dict) else range(len(values)):
        yield Cell(_item(_attribute(cell.read, name), key), f"{cell.name}.{name}[{key!r}]", f"{cell.shown}.{name}")


def _is_bound(value: Any) -> bool:
    """Whether `value` is a method of C code that was taken from an object: ``table.get``."""
    return isinstance(value, types.BuiltinFunctionType) and not isinstance(
        value.__self__, (types.ModuleType, type, types.NoneType)
    )


def _items(cell: Cell, value: Any, mentioned: Mapping[Any, None]) -> Iterator[Cell]:
    """The items of a container, how many there are, and which keys; of a large one which they are, and those that are
    no constants or whose keys occur in the code.  Of other collections and of references what they lead to."""
    read = cell.read
    if isinstance(value, (set, frozenset)):
        yield from _members(cell, value)
        if isinstance(value, set):
            whole, shown = (frozenset if is_plain(frozenset(value)) else members), f"set({cell.shown})"
            yield Cell(lambda: whole(now) if isinstance(now := read(), set) else None, f"set({cell.name})", shown)
    elif isinstance(value, CONTAINERS):
        is_whole, is_mapping = len(value) > _ITEMS, isinstance(value, MAPPINGS)
        yield Cell(lambda: length(read()), f"len({cell.name})", f"len({cell.shown})")
        if is_whole or is_mapping:
            of_all = partial(entries, is_whole=is_whole)
            yield Cell(lambda: of_all(read()), f"list({cell.name})", f"list({cell.shown})")
            yield from _members(cell, value if is_mapping else ())
        keys: Iterable[Any] = list(value) if is_mapping else range(len(value))
        if is_whole:
            pairs: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, MAPPINGS) else enumerate(value)
            keys = islice((k for k, v in pairs if (is_mapping and k in mentioned) or not is_plain(v)), _NESTED)
        for key in keys:
            name = repr(key) if is_plain(key) else id(key)
            yield Cell(_item(read, key), f"{cell.name}[{name}]", f"{cell.shown}[{key!r}]")
    elif isinstance(value, BUFFERS):
        yield Cell(lambda: elements(read()), f"list({cell.name})", f"list({cell.shown})")
    elif isinstance(value, REFERENCES):
        yield Cell(lambda: referred(read()), f"{cell.name}()", f"{cell.shown}()")
    elif (kept := kept_in(value)) is not None:
        inner = Cell(_attribute(read, kept), f"{cell.name}.{kept}", cell.shown)
        yield from _items(inner, inner.read(), mentioned)


def _members(cell: Cell, values: Iterable[Any]) -> Iterator[Cell]:
    """What is in a set, or a key of a dictionary, and no constant: another one is another set."""
    for value in islice((v for v in values if not is_plain(v)), _NESTED):
        yield Cell(constant(value), f"{id(value)} in {cell.name}", f"what is in {cell.shown}", is_fixed=True)


def _methods_of(cell: Cell, value: Any, wanted: _Wanted) -> Iterator[Cell]:
    """Which methods and properties an object of the user's, or a class, has under the names that are mentioned, and
    which special methods, which Python calls: a class may get others later, also one further up, which `super()` finds.
    """
    kinds = _users_classes(value)
    held = [(name, part) for kind in kinds for name, part in vars(kind).items()]
    special = {n: None for n, m in held if _is_special(n) and type(m) is types.FunctionType and not wanted.silent(n, m)}
    special |= {n: None for n, _ in held if n in _MAKING and wanted.makes(value)}
    for name in special | {n: None for n, part in held if n in wanted.mentioned and hasattr(part, "__get__")}:
        for kind in kinds:
            yield Cell(partial(vars(kind).get, name, ABSENT), f"class {id(kind)}.{name}", f"{cell.shown}.{name}")
        if not isinstance(value, type) and name not in special:  # one of its own would come first
            yield Cell(_own(cell.read, name), f"{cell.name}.__dict__.{name}", f"{cell.shown}.{name}")


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _attributes(value: Any) -> list[str]:
    """Names of what a user's object, class or module holds: methods and properties are code, not values."""
    if isinstance(value, types.ModuleType):
        return list(vars(value))
    return [*(() if isinstance(value, type) else getattr(value, "__dict__", ())), *_held_in(_users_classes(value))]


def _held_in(kinds: Iterable[type]) -> list[str]:
    """Names of what classes hold, and of slots of their objects."""
    held = [pair for kind in kinds for pair in vars(kind).items()]
    return [n for n, v in held if isinstance(v, types.MemberDescriptorType) or not hasattr(v, "__get__")]


def _values(module: types.ModuleType) -> list[str]:
    """Names of what a module of an installed library holds, but for its code."""
    code = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, np.ufunc)
    if is_fixed(module.__name__):
        return []
    return [name for name, value in vars(module).items() if not (isinstance(value, code) or _is_wrapped(value))]


def _is_users_module(module: types.ModuleType) -> bool:
    return is_users(module.__name__, getattr(module, "__file__", None))


def _item(read: Callable[[], Any], key: Any) -> Callable[[], Any]:
    def item() -> Any:
        try:
            return read()[key]
        except (LookupError, TypeError):
            return ABSENT

    return item


def _attribute(read: Callable[[], Any], name: str) -> Callable[[], Any]:
    return lambda: getattr(read(), name, ABSENT)


def _own(read: Callable[[], Any], name: str) -> Callable[[], Any]:
    return lambda: getattr(read(), "__dict__", {}).get(name, ABSENT)


def _entry(space: dict[str, Any], name: str) -> Callable[[], Any]:
    return lambda: space.get(name, ABSENT)


def _closed(cell: types.CellType, name: str) -> Cell:
    def read() -> Any:
        try:
            return cell.cell_contents
        except ValueError:  # not assigned yet
            return ABSENT

    return Cell(read, f"{id(cell)}.{name}", name)
