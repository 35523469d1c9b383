"""Guards of libraries that have none of their own: field by field, written out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polyfuse.codegen.closures import function_of

Field = tuple[str, str, Any]
"""An attribute of an array, ``is`` or ``==``, and its value."""


def fieldwise(kind: type, fields: Sequence[Sequence[Field]]) -> Callable[..., bool]:
    """Whether arrays, given one by one, are of type `kind` and have these fields, asked in this order.

    ::

        def check(a0, a1):
            return type(a0) is kind and a0.dtype is f0_0 and a0.shape == f0_1 and type(a1) is kind and ...
    """
    names: dict[str, Any] = {"kind": kind}
    wanted = []
    for k, of in enumerate(fields):
        wanted.append(f"type(a{k}) is kind")
        for j, (attribute, relation, value) in enumerate(of):
            names[f"f{k}_{j}"] = value
            wanted.append(f"a{k}.{attribute} {relation} f{k}_{j}")
    arguments = ", ".join(f"a{k}" for k in range(len(fields)))
    return function_of(f"def check({arguments}):\n    return {' and '.join(wanted)}\n", "check", names)
