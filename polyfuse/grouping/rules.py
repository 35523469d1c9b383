"""What the user and earlier proofs forbid; checked before legality, because it costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from polyfuse.grouping.costs import Costs
from polyfuse.grouping.partition import KernelGroup
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal

Identity = tuple[frozenset[int], frozenset[int]]  # body and roots of a kernel


@dataclass(frozen=True, slots=True)
class Rules:
    """together: groups that one kernel computes, or none.  apart: groups of which a kernel computes one at most.
    max_size: statements per kernel, 0 for no limit.  fusible: whether the user's options let one kernel compute these
    values (None: always).  refuted: kernels that the proof refused after they were planned.  alone: values that are
    kernels of their own, because kernel after kernel with them was refused; with the last refusal."""

    together: tuple[frozenset[int], ...] = ()
    apart: tuple[frozenset[int], ...] = ()
    max_size: int = 0
    fusible: Callable[[frozenset[int]], bool] | None = None
    refuted: Mapping[Identity, Verdict] = field(default_factory=dict)
    alone: Mapping[int, Verdict] = field(default_factory=dict)

    def allows(self, body: frozenset[int], roots: frozenset[int]) -> Verdict:
        """Whether a kernel respects all of them; a single statement always does."""
        if len(body) == 1:
            return LEGAL
        if self.max_size and len(body) > self.max_size:
            return _steered(f"{len(body)} statements in one kernel, max_fusion_size is {self.max_size}")
        if self.fusible is not None and not self.fusible(body):
            return _steered("the fuse option keeps these statements in kernels of their own")
        for group in self.apart:
            if len(group & body) > 1:
                return _steered("the user keeps these values apart")
        for group in self.together:
            if not group.isdisjoint(body) and not group <= body:
                return _steered("the kernel would hold only a part of what the user keeps together")
        if not self.alone.keys().isdisjoint(body):
            return self.alone[min(self.alone.keys() & body)]
        return self.refuted.get((body, roots), LEGAL) if self.refuted else LEGAL


def _steered(sentence: str) -> Verdict:
    return illegal(Hazard.STEERING, sentence, rule="steering")


class Judge:
    """Rules, then legality, each kernel asked once."""

    __slots__ = ("costs", "rules", "_asked")

    def __init__(self, costs: Costs, rules: Rules) -> None:
        self.costs = costs
        self.rules = rules
        self._asked: dict[Identity, Verdict] = {}

    def verdict(self, kernel: KernelGroup) -> Verdict:
        """Legal, or why not."""
        if len(kernel.body) == 1:
            return LEGAL
        key = (kernel.body, kernel.roots)
        known = self._asked.get(key)
        if known is None:
            known = self.rules.allows(kernel.body, kernel.roots)
            if known:
                known = self.costs.legal(kernel.body, kernel.roots, kernel.loads)
            self._asked[key] = known
        return known
