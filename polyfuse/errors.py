"""Every error a user can meet.  Each says what happened, where (the user's line), why, and what to do instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np


@dataclass(frozen=True, slots=True)
class Source:
    """A position in the user's code: file, 1-based line, the text of that line, and the columns of the expression."""

    file: str
    line: int
    text: str = ""
    column: int | None = None
    end_column: int | None = None

    def __str__(self) -> str:
        where = f'  File "{self.file}", line {self.line}'
        code = self.text.strip()
        if not code:
            return where
        shown = f"{where}\n    {code}"
        if self.column is not None and self.end_column is not None:
            indent = len(self.text) - len(self.text.lstrip())
            start = max(self.column - indent, 0)
            shown += f"\n    {' ' * start}{'^' * max(self.end_column - self.column, 1)}"
        return shown


class PolyfuseError(Exception):
    """Base of all errors raised on purpose.  `advice` tells what to write instead; `source` is the user's line."""

    def __init__(self, message: str, *, advice: str = "", source: Source | None = None) -> None:
        self.message, self.advice, self.source = message, advice, source
        parts = [message, *([str(source)] if source else []), *([f"  {advice}"] if advice else [])]
        Exception.__init__(self, "\n".join(parts))  # errors of NumPy's beside this one take other arguments


class TraceError(PolyfuseError):
    """The traced function does something that has no meaning on tensors of unknown value.  `made`: how many there were
    so far."""

    made: ClassVar[int] = 0

    def __init__(self, message: str, *, advice: str = "", source: Source | None = None) -> None:
        TraceError.made += 1
        super().__init__(message, advice=advice, source=source)


def escaped(place: str, function: str, what: str, source: Source | None) -> TraceError:
    """The error for `what` of a trace (an array, a size) that is kept in a `place` outside of the traced `function`."""
    return TraceError(
        f"{place} outlives {function} and holds {what} of its trace, which has no values",
        advice="Return it, and keep what the call gives: outside of the jitted function that is a real array.",
        source=source,
    )


class ShapeError(TraceError, ValueError):
    """Shapes that do not broadcast, axes out of range, sizes that do not match."""


class IterationError(ShapeError, TypeError):
    """An array of rank 0 holds no others, as a number does not."""


class AxisError(ShapeError, np.exceptions.AxisError):
    """An axis that an array does not have."""

    axis = ndim = None
    __str__ = Exception.__str__  # NumPy's makes its text of these two


class MatrixError(ShapeError, np.linalg.LinAlgError):
    """A function of linear algebra on what are no matrices, or no square ones."""


class DTypeError(TraceError, TypeError):
    """A dtype that polyfuse does not have, or that the operation does not accept."""


class OutOfRangeError(DTypeError, OverflowError):
    """A Python integer that numbers of the dtype beside it cannot hold."""


class NotANumberError(DTypeError, ValueError):
    """A NaN of Python's where an integer is needed."""


class DivisionError(TraceError, ZeroDivisionError):
    """A number of Python's divided by a size that is 0, or a size by 0."""


class PowerError(DTypeError, ValueError):
    """An integer to a negative power, which is no integer."""


class UnsupportedError(TraceError, NotImplementedError):
    """A NumPy function or option that is not supported; the advice names the alternative."""


class IndexingError(TraceError, IndexError):
    """An index out of bounds or of a kind that has no static shape."""


class IndexFault(PolyfuseError, IndexError):
    """A data-dependent index was out of bounds when a kernel ran; nothing outside the array was touched."""


class SpecError(PolyfuseError, ValueError):
    """A malformed shape specification such as ``f32[N,``."""


class ArgumentError(PolyfuseError, TypeError, ValueError):
    """A call with arguments that the program or the function cannot take: kinds, devices, dtypes, values, aliasing
    `out`."""


class ScheduleError(PolyfuseError, ValueError):
    """A schedule asked for by the user that is malformed or refused; `verdict` holds the proof where there is one."""

    def __init__(self, message: str, *, verdict: object = None, advice: str = "", source: Source | None = None) -> None:
        super().__init__(message, advice=advice, source=source)
        self.verdict = verdict


class OptionError(PolyfuseError, ValueError):
    """A bad option or environment variable."""


class DeviceError(PolyfuseError, RuntimeError):
    """No such device, a driver that is too old, or a failure reported by the driver."""


class CompileError(PolyfuseError, RuntimeError):
    """A generated kernel failed to compile: always a defect of polyfuse; the message names the reproducer file."""


class KernelError(PolyfuseError):
    """Kernel IR that breaks a rule of `polyfuse.verify`: always a defect of polyfuse."""


class StalePlanError(PolyfuseError):
    """A plan is used with arguments that its guards exclude."""
