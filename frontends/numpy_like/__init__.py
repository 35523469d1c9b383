"""NumPy code to `polyfuse.expr.Program`: run the user's function once on arrays of unknown values."""

from polyfuse.frontends.numpy_like import random
from polyfuse.frontends.numpy_like.specs import ArraySpec, ScalarSpec, spec, specs_of_arrays
from polyfuse.frontends.numpy_like.tracing import Output, ScalarGuard, SizeOutput, Traced, trace

__all__ = [
    "ArraySpec",
    "Output",
    "ScalarGuard",
    "ScalarSpec",
    "SizeOutput",
    "Traced",
    "random",
    "spec",
    "specs_of_arrays",
    "trace",
]
