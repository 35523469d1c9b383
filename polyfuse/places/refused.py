"""The answer to a proposal that cannot be placed."""

from __future__ import annotations

from polyfuse.verdict import Verdict


class Refused(Exception):
    """A proposal that cannot be placed; `verdict` says why."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.sentence)
        self.verdict = verdict
