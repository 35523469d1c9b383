"""The Numba CPU runtime of the fragment language (docs/fragments.md).

`namespace` holds the names that a kernel's text may use, `compile_function` turns such a function into object code,
`LoadedKernel` runs it.  The package needs Numba, llvmlite and NumPy only; `standalone_source` gives it as one file.
"""

from polyfuse.backends.numba_cpu.fragments.entry import ObjectCode, compile_function, host_processor
from polyfuse.backends.numba_cpu.fragments.launch import LoadedKernel, parameter_layout
from polyfuse.backends.numba_cpu.fragments.layouts import Size, Tile
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
