"""`print` in traced code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from io import StringIO
from typing import Any


class Printed:
    """What a run of the function prints, kept back until it is known that no other run comes in its place."""

    def __init__(self) -> None:
        self._streams = (sys.stdout, sys.stderr)
        self._kept: list[tuple[Any, str]] = []

    def print(self, original: Callable[..., None], *values: Any, **options: Any) -> None:
        """`print`; into a file of the function's own, which it may read, at once."""
        given, text = options.pop("file", None), StringIO()
        file = sys.stdout if given is None else given
        original(*values, **options, file=text)
        if any(file is stream for stream in self._streams):
            self._kept.append((file, text.getvalue()))
        else:
            original(text.getvalue(), end="", file=file)

    def forget(self) -> None:
        self._kept.clear()

    def write(self) -> None:
        for file, text in self._kept:
            print(text, end="", file=file, flush=True)
        self.forget()
