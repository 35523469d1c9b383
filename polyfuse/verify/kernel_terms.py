"""Scalar expressions of kernel IR: names bound, digits known, dtypes that agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import NoReturn, assert_never

from polyfuse import dtypes
from polyfuse.affine import Affine
from polyfuse.dtypes import DType
from polyfuse.kernel import Apply, Const, Expr, Index, Inside, Ref
from polyfuse.scalars import FUNCTIONS

_PYTHON_KINDS: Mapping[type, str] = {bool: "b", int: "iuf", float: "f"}


@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression may read: `values` with their dtypes, and `symbols`, the names of affine expressions."""

    values: Mapping[str, DType]
    symbols: Set[str]
    refuse: Callable[[str], NoReturn]

    def affine(self, expression: Affine, allowed: Set[str] | None = None) -> None:
        """Every name is a size or a digit in scope (or of `allowed`)."""
        for name in sorted(expression.names()):
            if name not in (self.symbols if allowed is None else allowed):
                self.refuse(f"{expression} reads {name}, which is no size or digit that it may read")

    def dtype(self, expr: Expr) -> DType:
        """The dtype that `expr` has in registers, after checking it."""
        match expr:
            case Ref(name, dtype):
                if name not in self.values:
                    self.refuse(f"{name} is read before it is bound")
                if self.values[name] != dtype.compute:
                    self.refuse(f"{name} is {self.values[name]} and is read as {dtype}")
                return dtype.compute
            case Const(value, dtype):
                if dtype.kind not in _PYTHON_KINDS[type(value)]:
                    self.refuse(f"the literal {value!r} is no {dtype}")
                return dtype.compute
            case Index(affine, dtype):
                self.affine(affine)
                if dtype.kind == "b":
                    self.refuse(f"the index {affine} is taken as a bool")
                return dtype.compute
            case Inside(where):
                for condition in where:
                    self.affine(condition)
                return dtypes.bool_
            case Apply():
                return self._apply(expr)
            case _:
                assert_never(expr)

    def _apply(self, expr: Apply) -> DType:
        function = FUNCTIONS.get(expr.function)
        if function is None:
            self.refuse(f"there is no scalar function {expr.function}")
        if len(expr.operands) != function.arity:
            self.refuse(f"{expr.function} takes {function.arity} operands, not {len(expr.operands)}")
        operands = [self.dtype(o) for o in expr.operands]
        result = expr.dtype.compute
        if function.name == "cast":
            return result
        if function.name == "bitcast":
            if operands[0].itemsize != result.itemsize:
                self.refuse(f"bitcast from {operands[0]} to {result} changes the width")
            return result
        if function.name == "where" and operands.pop(0) != dtypes.bool_:
            self.refuse("the first operand of where is no bool")
        if any(o != operands[0] for o in operands):
            self.refuse(f"{expr.function} meets the dtypes {', '.join(str(o) for o in operands)}")
        if operands[0].kind not in function.kinds:
            self.refuse(f"{expr.function} does not take {operands[0]}")
        expected = dtypes.bool_ if function.result == "bool" else operands[0]
        if result != expected:
            self.refuse(f"{expr.function} of {operands[0]} gives {expected}, not {result}")
        return result
