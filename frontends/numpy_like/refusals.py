"""What NumPy has and jitted functions have not, with what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from polyfuse.errors import TraceError, UnsupportedError


class AttributeRefused(TraceError, AttributeError):
    """An attribute of ndarrays that traced arrays lack; `hasattr` sees that it is missing."""


def masked_array() -> TraceError:
    return TraceError(
        "a masked array has no place in a kernel",
        advice="Write m.filled(value), or m.data and m.mask as two arrays.",
    )


def _for(advice: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), advice)


# By NumPy's name without "np."; what is not here gets `_GENERAL`.
ALTERNATIVES: Mapping[str, str] = MappingProxyType(
    {
        "argwhere": "Its shape depends on the values; use np.where(condition, a, b), or np.argmax(condition).",
        **_for(
            "Its shape depends on the values; call it on the result, outside the jitted function.",
            "unique unique_all unique_counts unique_inverse unique_values union1d trim_zeros",
        ),
        **_for(
            "Its shape depends on the values; np.isin(a, b) marks the elements of a that b has.",
            "intersect1d setdiff1d setxor1d",
        ),
        "extract": "Its shape depends on the values; use np.where(condition, x, 0).",
        **_for(
            "Number the bins with np.digitize, and count with np.add.at(counts, (i, j), 1).", "histogram2d histogramdd"
        ),
        "apply_along_axis": "Write the function with axis= over the whole array.",
        **_for("Write the function over whole arrays with np.where.", "vectorize frompyfunc"),
        **_for("Return the array, and write it to disk after the call.", "save savez savez_compressed savetxt"),
        **_for("Read it before the call, and pass the array as an argument.", "load loadtxt genfromtxt fromfile"),
        **_for("Make the array before the call, and pass it as an argument.", "frombuffer fromstring fromiter"),
        **_for("Make the array before the call, and pass it as an argument.", "fromregex from_dlpack"),
        **_for(
            "Return the array, and print it after the call.",
            "array2string array_repr array_str format_float_positional format_float_scientific base_repr binary_repr "
            "printoptions datetime_as_string typename info",
        ),
        **_for(
            "Its argument is a number; compute the window from np.arange(n).",
            "bartlett blackman hamming hanning kaiser",
        ),
        **_for(
            "Pass the shape: np.ix_, np.tril_indices(len(x)) and np.diag_indices(len(x)) take numbers.", "mask_indices"
        ),
        **_for("Arrays of a jitted function never share memory with one another.", "shares_memory may_share_memory"),
        **_for(
            "Ask for x.dtype: np.result_type and np.promote_types take dtypes.",
            "common_type min_scalar_type mintypecode",
        ),
        **_for("Arrays of a jitted function are contiguous in C order.", "isfortran"),
        **_for("Use plain arrays; a @ b multiplies matrices, np.block joins them.", "matrix asmatrix bmat"),
        "asarray_chkfinite": "Check np.isfinite(x).all() on the result, after the call.",
        **_for("Programs are real; call it outside the jitted function.", "roots sort_complex"),
        "poly": "Its result may be complex; multiply the factors with np.convolve.",
        "polydiv": "The number of its steps depends on the values; call it outside the jitted function.",
        "poly1d": "Use np.polyval(coefficients, x).",
        **_for("Arrays hold numbers, not dates.", "busday_count busday_offset is_busday isnat datetime_data"),
        **_for("Work on bits with &, |, << and >>.", "packbits unpackbits"),
        "einsum_path": "np.einsum finds the order of contraction itself.",
        **_for("Loop over whole arrays: np.* functions take them at once.", "nditer nested_iters flatiter"),
        "broadcast": "Use np.broadcast_shapes or np.broadcast_arrays.",
        "lib.stride_tricks.as_strided": "Use np.lib.stride_tricks.sliding_window_view, slices or reshape.",
        **_for("Write np.where(mask, x, value): masked arrays are not supported.", "ma.masked_array ma.array"),
        **{
            f"lib.scimath.{n}": f"Programs are real; np.{n} gives NaN outside of its domain."
            for n in "sqrt log log2 log10 power arccos arcsin arctanh".split()
        },
        "lib.scimath.logn": "Programs are real; write np.log(x) / np.log(n).",
    }
)

_GENERAL = "Call it outside the jitted function, or write it with supported functions."

_STORAGE = "Where and how an array is stored is decided by the plan; use slices, reshape and transpose."

# Strides are asked for to pass them on to as_strided.
_STRIDES = (
    "Where an array lies is decided by the plan; "
    "np.lib.stride_tricks.sliding_window_view has windows, slices have steps."
)

# Attributes and methods of ndarrays.
ATTRIBUTES: Mapping[str, str] = MappingProxyType(
    {
        **_for(_STORAGE, "base flags data ctypes setflags"),
        "strides": _STRIDES,
        **_for("Return the array and read it after the call.", "tolist item tobytes tofile dump dumps"),
        "resize": "Use x.reshape(shape), or np.resize(x, shape), which repeats the elements.",
        "byteswap": "Arrays have the byte order of the machine.",
        **_for("Use x.view(dtype) for dtypes of one width, and shifts of integers for others.", "getfield setfield"),
    }
)


def unsupported(name: str) -> UnsupportedError:
    """The error for NumPy's function `name`."""
    advice = ALTERNATIVES.get(name, _GENERAL)
    return UnsupportedError(f"np.{name} is not supported in a jitted function", advice=advice)
