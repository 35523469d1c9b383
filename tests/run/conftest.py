"""Jitted functions with the real floors below them and no disk cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from polyfuse.face.joined import backend, target_of
from polyfuse.face.numpy_like import NumPyFrontend
from polyfuse.options import Options
from polyfuse.planning.planner import plan_program
from polyfuse.run.dispatch import Jitted
from polyfuse.run.services import Services

Jit = Callable[..., Jitted]


@pytest.fixture
def services() -> Services:
    return Services(NumPyFrontend(), plan_program, backend, target_of)


@pytest.fixture
def jit(services: Services) -> Jit:
    """``jit(function, **options)``."""

    def make(function: Callable[..., Any], **options: Any) -> Jitted:
        return Jitted(function, Options().updated(options), services)

    return make
