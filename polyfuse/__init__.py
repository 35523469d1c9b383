"""polyfuse: proved loop fusion for NumPy programs.

Importing it loads nothing but this file: each name below is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from polyfuse.version import __version__

if TYPE_CHECKING:
    from polyfuse.api import jit, spec
    from polyfuse.errors import PolyfuseError
    from polyfuse.options import Options

_HOMES = {
    "jit": "polyfuse.api",
    "spec": "polyfuse.api",
    "PolyfuseError": "polyfuse.errors",
    "Options": "polyfuse.options",
}

__all__ = ["Options", "PolyfuseError", "__version__", "jit", "spec"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'polyfuse' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
