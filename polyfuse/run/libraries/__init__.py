"""One file per array library; `library_of` finds the one of an argument."""

from __future__ import annotations

from importlib import import_module

from polyfuse.run.arrays import Library

# The package that defines a type -> the module here that reads its arrays.
_MODULES = {
    "numpy": "numpy_arrays",
    "torch": "torch_tensors",
    "cupy": "cupy_arrays",
    "numba": "numba_arrays",
    "numba_cuda": "numba_arrays",
}


def library_of(kind: type) -> Library | None:
    """The library whose arrays have the type `kind`, else None.  Imports only what defines `kind`."""
    for base in kind.__mro__[:-1]:
        module = _MODULES.get(base.__module__.partition(".")[0])
        if module is not None:
            loaded = import_module(f"polyfuse.run.libraries.{module}")
            library: Library | None = loaded.library_of(kind)
            return library
    return None
