"""Functions that compiled modules export, called from Python."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest

from polyfuse.run.libraries.capsules import exported

WORD = ctypes.PYFUNCTYPE(ctypes.c_ssize_t)
ANSWER = WORD(lambda: 42)
SIGNATURE = ctypes.create_string_buffer(b"intptr_t (void)")  # a capsule keeps the address of its name


def module() -> SimpleNamespace:
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    make = new(("PyCapsule_New", ctypes.pythonapi))
    name = ctypes.cast(SIGNATURE, ctypes.c_char_p)
    return SimpleNamespace(__pyx_capi__={"answer": make(ctypes.cast(ANSWER, ctypes.c_void_p), name, None)})


def test_a_function_is_found_by_name_and_signature() -> None:
    assert exported(module(), "answer", "intptr_t (void)")() == 42


def test_anything_else_is_refused() -> None:
    with pytest.raises(ValueError, match="PyCapsule_GetPointer"):
        exported(module(), "answer", "int (void)")
    with pytest.raises(KeyError):
        exported(module(), "question", "intptr_t (void)")
    with pytest.raises(AttributeError):
        exported(SimpleNamespace(), "answer", "intptr_t (void)")
