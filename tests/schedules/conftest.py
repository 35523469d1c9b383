"""Jitted functions as in the tests of calls."""

from __future__ import annotations

from tests.run.conftest import jit, services

__all__ = ["jit", "services"]
