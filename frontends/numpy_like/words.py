"""Options of NumPy's functions that are one of a few words, or a truth value: for what NumPy does not know there is an
error here, too, and never the default in its place."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from polyfuse.errors import ArgumentError

_CASTS = ("no", "equiv", "safe", "same_kind", "unsafe")
_BY_NAME = MappingProxyType({"casting": _CASTS, "UPLO": ("L", "U", "l", "u")})
_OUT_OF_BOUNDS = frozenset("take choose put ravel_multi_index".split())  # elsewhere a mode is something else


def check_words(name: str, given: Mapping[str, Any]) -> None:
    """Raises ArgumentError for an option that is none of those that the function `name` has."""
    for option, value in given.items():
        known = _known(name, option)
        for word in value if option == "mode" and isinstance(value, (tuple, list)) else (value,):
            if known is not None and not any(word is k or (isinstance(word, str) and word == k) for k in known):
                words = ", ".join(map(repr, known))
                raise ArgumentError(f"np.{name} has no {option}={word!r}", advice=f"Known are {words}.")
        if option == "keepdims" and not (hasattr(value, "__index__") or isinstance(value, np.bool_)):
            raise ArgumentError(f"np.{name} with keepdims={value!r}", advice="Write keepdims=True or keepdims=False.")


def _known(name: str, option: str) -> tuple[str | None, ...] | None:
    if option == "mode" and name in _OUT_OF_BOUNDS:
        return ("raise", "wrap", "clip")
    if option == "kind" and name == "isin":
        return (None, "sort", "table")
    return _BY_NAME.get(option)


