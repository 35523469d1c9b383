"""Which code is of a library, Python's own or an installed one, and which is the user's.

Its file says so, where it has one: decorators give functions the module of another, and a user's module may be called
as one of Python's is.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import lru_cache
from importlib import metadata

import numpy as np

_FOLDERS = frozenset(("site-packages", "dist-packages"))
_BESIDE = os.path.dirname(os.path.dirname(np.__file__)) + os.sep
"""Where NumPy is: not always a folder of packages, and perhaps the user's own (`pip install --target`)."""
_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep
_STDLIB = tuple(
    {form(p) + os.sep for name in ("stdlib", "platstdlib") if (p := sysconfig.get_path(name))
     for form in (os.path.normpath, os.path.realpath)}
)  # fmt: skip


@lru_cache(maxsize=1 << 14)  # a large package has a million values to ask of
def is_users(module: str, file: str | None) -> bool:
    """Whether code is of no library: what those hold does not change, but for caches of their own.  `module`: its name;
    `file`: where it was compiled, as Python says it."""
    root = module.partition(".")[0]
    if not file or file.startswith("<"):  # typed in, made by a decorator, built in
        is_frozen = bool(file) and str(file).startswith("<frozen ")
        return not is_frozen and root not in sys.stdlib_module_names and root != "polyfuse"
    if file.startswith(_OURS) or not _FOLDERS.isdisjoint(file.split(os.sep)):
        return False
    if file.startswith(_BESIDE):
        return file[len(_BESIDE) :].partition(os.sep)[0].partition(".")[0] not in _names_beside()
    return not file.startswith(_STDLIB)


@lru_cache(maxsize=1)
def _names_beside() -> frozenset[str]:
    """What is installed in the folder of NumPy."""
    found = {"numpy"}
    for distribution in metadata.distributions(path=[_BESIDE]):
        top = distribution.read_text("top_level.txt")
        found |= set(top.split()) if top else {str(file).partition("/")[0] for file in distribution.files or ()}
    return frozenset(name.partition(".")[0] for name in found)
