"""Which code is of a library, Python's own or an installed one, and which is the user's.

Its file says so, where it has one: decorators give functions the module of another, and a user's module may be called
as one of Python's is.  An installed package is the user's once code of it is traced: the package of a jitted function,
and one whose functions are found to compute with values of a trace.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable
from functools import lru_cache
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from itertools import pairwise

import numpy as np

_FOLDERS = frozenset(("site-packages", "dist-packages"))
_BESIDE = os.path.dirname(os.path.dirname(np.__file__)) + os.sep
"""Where NumPy is: not always a folder of packages, and perhaps the user's own (`pip install --target`)."""
_OURS = os.path.dirname(__file__) + os.sep
_NEVER = frozenset(("numpy", "polyfuse"))
_FIXED = sys.stdlib_module_names | _NEVER
_traced = set[str]()  # installed packages; of the process, as `sys.modules` is: packages are the same for all functions
_STDLIB = tuple(
    {form(p) + os.sep for name in ("stdlib", "platstdlib") if (p := sysconfig.get_path(name))
     for form in (os.path.normpath, os.path.realpath)}
)  # fmt: skip


@lru_cache(maxsize=1 << 14)  # a large package has a million values to ask of
def is_users(module: str, file: str | None) -> bool:
    """Whether code is of no library: what those hold does not change, but for caches of their own.  `module`: its name;
    `file`: where it was compiled, as Python says it."""
    root = _root(module)
    if not file or file.startswith("<"):  # typed in, made by a decorator, built in
        is_frozen = bool(file) and str(file).startswith("<frozen ")
        return not is_frozen and root not in sys.stdlib_module_names and root != "polyfuse"
    if file.startswith(_OURS):
        return False
    package = package_of(file)
    return package in _traced if package else not file.startswith(_STDLIB)


def package_of(file: str) -> str | None:
    """The installed package, or module, that a file is of."""
    parts = file.split(os.sep)
    of_folders = [after for folder, after in pairwise(parts) if folder in _FOLDERS]
    if not of_folders and file.startswith(_BESIDE):
        of_folders = [name for name in (file[len(_BESIDE) :].split(os.sep)[0],) if _root(name) in _names_beside()]
    return _root(of_folders[-1]) if of_folders else None


def is_fixed(module: str) -> bool:
    """Whether a module is one of Python's, NumPy's or ours, in which nothing changes that code would find there."""
    return _root(module) in _FIXED


def note_traced(files: Iterable[str], *, is_asked_for: bool = False) -> bool:
    """Code in these files is traced: installed packages that it is of are the user's from here on, those with compiled
    code only where it `is_asked_for`: what these keep for themselves is much.  Whether some were not before."""
    packages = {package for file in files if (package := package_of(file))} - _traced - _NEVER
    found = {package for package in packages if is_asked_for or not _is_compiled(package)}
    if found:
        _traced.update(found)
        is_users.cache_clear()
    return bool(found)


def _is_compiled(package: str) -> bool:
    loaded = [module for name, module in list(sys.modules.items()) if _root(name) == package]
    return any((getattr(module, "__file__", None) or "").endswith(tuple(EXTENSION_SUFFIXES)) for module in loaded)


def _root(name: str) -> str:
    return name.partition(".")[0]


@lru_cache(maxsize=1)
def _names_beside() -> frozenset[str]:
    """What is installed in the folder of NumPy."""
    found = {"numpy"}
    for distribution in metadata.distributions(path=[_BESIDE]):
        top = distribution.read_text("top_level.txt")
        found |= set(top.split()) if top else {str(file).partition("/")[0] for file in distribution.files or ()}
    return frozenset(map(_root, found))
