"""The fragment language on Numba CUDA (docs/fragments.md); standalone: it needs numba-cuda and NumPy only.

Kernels find its names through ``from ... import *`` or, when they are compiled from text, through `namespace`.
"""

from __future__ import annotations

from polyfuse.backends.numba_cuda.fragments.runtime import namespace

globals().update(namespace())
__all__ = sorted(namespace())
