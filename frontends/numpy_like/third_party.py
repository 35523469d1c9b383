"""Functions and modules of installed libraries, as a traced function sees them.

Compiled code reads arrays without a word to them (``scipy.linalg.inv(W)``), and so may any library: it gets plain
arrays, which count as read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from polyfuse.frontends.numpy_like.watched import called
from polyfuse.installed import is_users, package_of

_OURS = ("numpy", "polyfuse")
_OF_BYTES = frozenset("array base64 binascii bz2 ctypes hashlib io lzma mmap struct zlib".split())
"""Modules of Python's own that read memory."""


class Library:
    """A module or something to call; `stand_in`: what stands in for what is found in it."""

    __slots__ = ("_original", "_stand_in")

    def __init__(self, original: Any, stand_in: Callable[[Any], Any]) -> None:
        object.__setattr__(self, "_original", original)
        object.__setattr__(self, "_stand_in", stand_in)

    @property
    def original(self) -> Any:
        return self._original

    @property  # type: ignore[misc]  # for `isinstance`
    def __class__(self) -> Any:
        return type(self._original)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return called(self._original, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._original, name)
        is_bound = callable(found) and not isinstance(found, (type, ModuleType)) and not name.startswith("__")
        return Library(found, self._stand_in) if is_bound else self._stand_in(found)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._original, name, value)

    def __eq__(self, other: object) -> bool:
        return bool(self._original == (other.original if type(other) is Library else other))

    def __hash__(self) -> int:
        return hash(self._original)

    def __repr__(self) -> str:
        return repr(self._original)


def is_third_party(module: str | None) -> bool:
    """Whether a module is of an installed package, or one of Python's own that read memory."""
    root = (module or "").partition(".")[0].removeprefix("_")
    if root in _OF_BYTES:
        return True
    if not root or root in _OURS or root in sys.stdlib_module_names or f"_{root}" in sys.stdlib_module_names:
        return False
    files = (getattr(sys.modules.get(name), "__file__", None) for name in (module or "", root))
    file = next((file for file in files if file is not None), None)
    return file is not None and not is_users(module or "", file)


def is_installed(file: str) -> bool:
    """Whether code is of an installed package, under whatever name a decorator gave it."""
    return package_of(file) is not None and not is_users("", file)
