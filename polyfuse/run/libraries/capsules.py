"""Functions that compiled modules export to other compiled modules, called from Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any


def exported(module: Any, name: str, signature: str) -> Callable[[], int]:
    """A function without arguments that returns a word.  It runs with the interpreter's lock, and what it raises is
    raised.  Raises AttributeError, KeyError or ValueError where the module exports none of that name and C signature.
    """
    capsule = module.__pyx_capi__[name]
    address = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )(capsule, signature.encode())  # ValueError for another signature
    function: Callable[[], int] = ctypes.PYFUNCTYPE(ctypes.c_ssize_t)(address)
    return function
