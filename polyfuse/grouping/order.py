"""A topological order of the kernels, kept while kernels are replaced.

Positions are integers with room between them, so that a replaced kernel gives its position to its successors and only
the window that a move spans is sorted again (the idea of Pearce and Kelly, "A dynamic topological sort algorithm for
directed acyclic graphs", 2007).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Sequence

ROOM = 1 << 32  # positions left free between two kernels; exhausted by 32 splits at one place, then renumbered
LAST = 1 << 62


class Order:
    """`position[k]` of every kernel k; all different, operands' kernels before users'."""

    __slots__ = ("position", "_line")

    def __init__(self) -> None:
        self.position: dict[int, int] = {}
        self._line: list[tuple[int, int]] = []

    def place(self, kernel: int, position: int) -> None:
        self.remove(kernel)
        self.position[kernel] = position
        insort(self._line, (position, kernel))

    def remove(self, kernel: int) -> None:
        if kernel in self.position:
            del self._line[bisect_left(self._line, (self.position.pop(kernel), kernel))]

    def window(self, low: int, high: int) -> list[int]:
        """Kernels at positions ``low .. high``, in order."""
        start, end = bisect_left(self._line, (low, -1)), bisect_right(self._line, (high, LAST))
        return [kernel for _, kernel in self._line[start:end]]

    def slots(self, taken: Sequence[int], count: int) -> list[int] | None:
        """`count` ascending positions: those `taken`, then free ones behind the last; None if there is no room."""
        if count <= len(taken):
            return list(taken[:count])
        missing, last = count - len(taken), taken[-1]
        at = bisect_right(self._line, (last, LAST))
        step = (self._line[at][0] - last) // (missing + 1) if at < len(self._line) else ROOM
        return None if step == 0 else [*taken, *(last + step * (k + 1) for k in range(missing))]

    def renumber(self) -> None:
        self._line = [(k * ROOM, kernel) for k, (_, kernel) in enumerate(self._line)]
        self.position = {kernel: position for position, kernel in self._line}

    def snapshot(self) -> tuple[dict[int, int], list[tuple[int, int]]]:
        return dict(self.position), list(self._line)

    def restore(self, snapshot: tuple[dict[int, int], list[tuple[int, int]]]) -> None:
        self.position, self._line = snapshot


def depth_first(
    kernels: Sequence[int], before: Callable[[int], Iterable[int]], position: Callable[[int], int]
) -> list[int] | None:
    """`kernels` with everything that `before` names in front, else in the given order; None if they form a cycle."""
    inside, order, entered = set(kernels), list[int](), dict[int, bool]()
    for kernel in kernels:
        stack = [(kernel, False)]
        while stack:
            current, expanded = stack.pop()
            if expanded:
                entered[current] = False
                order.append(current)
            elif current not in entered:
                entered[current] = True
                stack.append((current, True))
                for other in sorted(inside.intersection(before(current)), key=lambda k: (-position(k), -k)):
                    if entered.get(other):
                        return None
                    if other not in entered:
                        stack.append((other, False))
    return order
