"""polyfuse: proved loop fusion for NumPy programs.

Importing it loads nothing but this file: each name below is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from polyfuse.version import __version__

if TYPE_CHECKING:
    from polyfuse import nn
    from polyfuse.api import jit, spec
    from polyfuse.errors import PolyfuseError
    from polyfuse.explain.compare import compare
    from polyfuse.face.custom import custom
    from polyfuse.frontends.numpy_like import random
    from polyfuse.options import Options
    from polyfuse.run.faults import synchronize
    from polyfuse.text.apply import parse_schedule

_HOMES = {
    "compare": "polyfuse.explain.compare",
    "custom": "polyfuse.face.custom",
    "jit": "polyfuse.api",
    "parse_schedule": "polyfuse.text.apply",
    "random": "polyfuse.frontends.numpy_like",
    "spec": "polyfuse.api",
    "synchronize": "polyfuse.run.faults",
    "PolyfuseError": "polyfuse.errors",
    "Options": "polyfuse.options",
}

_MODULES = ("errors", "nn", "testing")

__all__ = [
    "Options",
    "PolyfuseError",
    "__version__",
    "compare",
    "custom",
    "jit",
    "nn",
    "parse_schedule",
    "random",
    "spec",
    "synchronize",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if name in _MODULES:  # importing one makes it an attribute of this module
        return import_module(f"polyfuse.{name}")
    value = globals()[name] = getattr(import_module(home), name) if home is not None else _function(name)
    return value


def _function(name: str) -> Any:
    """A function of arrays such as `exp`, `softmax` or `zeros`.  Submodules are the import system's business."""
    if not name.startswith("_") and find_spec(f"polyfuse.{name}") is None:
        functions = import_module("polyfuse.frontends.numpy_like.functions")
        if name in functions.names():
            return functions.public(name)
    raise AttributeError(f"module 'polyfuse' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What users need: the functions of arrays too, which `import *` leaves out, as some have names of Python's own."""
    functions = import_module("polyfuse.frontends.numpy_like.functions")
    own = (name for name in globals() if name.startswith("__") and name.endswith("__"))
    return sorted({*__all__, *_MODULES, *functions.names(), *own})
