"""Checks of the invariants of each level, run between passes."""
