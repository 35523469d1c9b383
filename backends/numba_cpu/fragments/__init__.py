"""The Numba CPU runtime of the fragment language (docs/fragments.md).

`namespace` holds the names that a kernel's text may use, `compile_function` turns such a function into object code,
`LoadedKernel` runs it.  The package needs Numba, llvmlite and NumPy only; `standalone_source` gives it as one file.
Each name is imported when it is first asked for: kernels from the cache on disk need llvmlite alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyfuse.backends.numba_cpu.fragments.entry import compile_function
    from polyfuse.backends.numba_cpu.fragments.launch import LoadedKernel, parameter_layout
    from polyfuse.backends.numba_cpu.fragments.layouts import Size, Tile
    from polyfuse.backends.numba_cpu.fragments.object_code import ObjectCode, host_processor
    from polyfuse.backends.numba_cpu.fragments.runtime import namespace
    from polyfuse.backends.numba_cpu.fragments.standalone import standalone_source
    from polyfuse.backends.numba_cpu.fragments.types import Fragment, Pointer

__all__ = [
    "Fragment",
    "LoadedKernel",
    "ObjectCode",
    "Pointer",
    "Size",
    "Tile",
    "compile_function",
    "host_processor",
    "namespace",
    "parameter_layout",
    "standalone_source",
]

_HOMES = {
    "Fragment": "types",
    "LoadedKernel": "launch",
    "ObjectCode": "object_code",
    "Pointer": "types",
    "Size": "layouts",
    "Tile": "layouts",
    "compile_function": "entry",
    "host_processor": "object_code",
    "namespace": "runtime",
    "parameter_layout": "launch",
    "standalone_source": "standalone",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
