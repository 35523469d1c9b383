"""Loops in the text of kernels."""

from __future__ import annotations

from itertools import takewhile


def loops_without_masks(source: str) -> list[str]:
    """Innermost loops that load something, and ask for no mask."""
    lines = source.splitlines()
    found = []
    for k, line in enumerate(lines):
        if line.lstrip().startswith("for "):
            inside = line[: len(line) - len(line.lstrip())] + " "
            found.append("\n".join(takewhile(lambda later, inside=inside: later.startswith(inside), lines[k + 1 :])))
    return [body for body in found if "for " not in body and "load(" in body and "mask" not in body]
