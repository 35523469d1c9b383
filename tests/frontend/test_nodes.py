"""Nodes of a traced program, as they are shown."""

from __future__ import annotations

from typing import Any

import polyfuse as pf


def test_a_node_is_shown_without_what_it_is_made_of() -> None:
    """Of 40 sums of a value with itself each was written for every way to it: two to the power of 40 lines."""

    def doubled(x: Any) -> Any:
        for _ in range(40):
            x = x + x * x
        return x

    plan = pf.jit(doubled).plan(pf.spec("f32[N]"), target="cpu")
    (result,) = plan.program.outputs
    assert repr(result).startswith("<Map ") and repr(result).endswith(": f32[N]>")
    assert len(repr(plan.launches[0])) < 1_000_000
