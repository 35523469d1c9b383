"""Plans survive JSON unchanged; what is not data is refused."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest

from polyfuse import dtypes
from polyfuse.affine import Affine
from polyfuse.cache.encoding import UnstorableError, decode, encode
from polyfuse.expr import Argument, Call, Program, input_, map_
from polyfuse.face.joined import backend, target_of
from polyfuse.face.numpy_like import NumPyFrontend
from polyfuse.options import Options
from polyfuse.plan import IndexSite
from polyfuse.planning.planner import plan_program
from polyfuse.run.dispatch import Jitted
from polyfuse.run.services import Services
from polyfuse.verdict import Hazard, Instance, Witness, illegal

N = Affine.symbol("N")
X = input_(0, (N,), dtypes.f32)
PROGRAM = Program("f", (Argument("x", (N,), dtypes.f32),), (map_("exp", (X,)),), ("y",))


def through(value: Any) -> Any:
    return decode(json.loads(json.dumps(encode(value, PROGRAM))), PROGRAM)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(1 << 70),
        "text",
        b"\0\xff",
        (1, (2.5, -0.0), frozenset({"a", "b"})),
        {"a": 1, ("b", 2): None},
        2 * N + N // 3,
        dtypes.bf16,
        PROGRAM,
        X,
        map_("sqrt", (map_("exp", (X,)),)),
        illegal(Hazard.WAR, "no", Witness(Instance("x", (0,)), Instance("y", (1,)), (("N", 4),))),
        IndexSite("y", "x", b"\1\2"),
    ],
)
def test_values(value: Any) -> None:
    found = through(value)
    assert found == value
    assert type(found) is type(value)


def test_floats_keep_their_bits() -> None:
    assert math.copysign(1, through(-0.0)) == -1
    assert math.isnan(through(math.nan))
    assert through(-math.inf) == -math.inf
    assert through(0.1) == 0.1


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def share(x):
    return np.cumsum(x / np.sqrt((x * x).sum()), axis=0)


def chosen(x):
    """Its plan names the places where an index is checked."""
    return x[x[:, 0].astype(np.int64)] * 2


@pytest.mark.parametrize("shape", [(8, 100), (5000, 1000)])
@pytest.mark.parametrize("function", [softmax, share, lambda x: np.cumsum(x[:, ::-1], axis=1) @ x.T, chosen])
@pytest.mark.parametrize("settings", [{}, {"fuse": False}, {"target": "h200"}])
def test_whole_plans(function: Any, shape: tuple[int, int], settings: dict[str, Any]) -> None:
    services = Services(NumPyFrontend(), plan_program, backend, target_of)
    plan = Jitted(function, Options().updated(settings), services).plan(np.zeros(shape, np.float32))
    text = json.dumps(encode(plan, plan.program))
    found = decode(json.loads(text), plan.program)
    assert all(getattr(found, f.name) == getattr(plan, f.name) for f in dataclasses.fields(plan))


def test_plans_with_a_launch_that_fills() -> None:
    services = Services(NumPyFrontend(), plan_program, backend, target_of)
    options = Options().updated({"atomics": True, "tiles": {"sum": {"atomic": 1}}, "target": "h200"})
    plan = Jitted(lambda x: x.sum(axis=0), options, services).plan(np.zeros((100000, 64), np.float32))
    found = decode(json.loads(json.dumps(encode(plan, plan.program))), plan.program)
    assert found.steps == plan.steps and found.launches[0].filled and found.options.atomics


@pytest.mark.parametrize("value", [object(), np.float32(1), [1], Call("user", (), lambda: None)])
def test_what_is_not_data_has_no_stored_form(value: Any) -> None:
    with pytest.raises(UnstorableError):
        encode(value, PROGRAM)


@pytest.mark.parametrize(
    "data",
    [
        {"objects": [], "root": ["o", 0]},
        {"objects": [["system", ["ls"]]], "root": ["o", 0]},
        {"objects": [["affine.Affine", [["t"]]]], "root": ["o", 0]},
        {"objects": [], "root": ["z"]},
        {"objects": [], "root": ["d", "f99"]},
        {"objects": [], "root": ["n", "00"]},
        {"root": 1},
    ],
)
def test_documents_of_others_are_errors(data: Any) -> None:
    with pytest.raises((ValueError, KeyError, IndexError, TypeError)):
        decode(data, PROGRAM)
