"""The answer to "may these share a kernel?": a value with its reason, never a bare boolean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from polyfuse.units import time_text


class Kind(Enum):
    """What a `Verdict` says."""

    LEGAL = "legal"
    ILLEGAL = "illegal"
    UNPROFITABLE = "unprofitable"
    UNKNOWN = "unknown"


class Hazard(Enum):
    """The dependence or resource an illegal schedule violates; ``legality.RULES`` names the rule that checks each."""

    RAW = "read after write"
    WAR = "write after read"
    WAW = "write after write"
    SCOPE = "value needed where it does not live"
    COMBINE = "partial results counted twice or not at all"
    COVERAGE = "instances executed nowhere"
    BARRIER = "threads not synchronised between a write and a read"
    BOUNDS = "access outside an array or buffer"
    CAPACITY = "more memory or threads than the target has"
    EFFECT = "an effect executed more than once"
    STEERING = "kept apart or together by the user"


@dataclass(frozen=True, slots=True)
class Instance:
    """One execution of a statement, for example ``e[3, 17]``."""

    statement: str
    point: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.statement}[{', '.join(map(str, self.point))}]"


@dataclass(frozen=True, slots=True)
class Witness:
    """Two instances that prove a refusal: `first` must reach `second` but does not, at these sizes."""

    first: Instance
    second: Instance
    sizes: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        at = f" at {', '.join(f'{n} = {v}' for n, v in self.sizes)}" if self.sizes else ""
        return f"{self.first} -> {self.second}{at}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`sentence` explains in words; `numbers` hold registers, bytes, microseconds of an unprofitable choice."""

    kind: Kind
    sentence: str
    hazard: Hazard | None = None
    witness: Witness | None = None
    numbers: Mapping[str, float] = field(default_factory=dict, hash=False)
    rule: str = ""

    def __bool__(self) -> bool:
        return self.kind is Kind.LEGAL

    def __str__(self) -> str:
        text = f"{self.kind.value}: {self.sentence}"
        if self.witness is not None:
            text += f" (witness {self.witness})"
        if self.numbers:
            text += f" [{', '.join(_shown(name, value) for name, value in self.numbers.items())}]"
        return text


def _shown(name: str, value: float) -> str:
    """A number with its unit, which its name ends with."""
    if name.endswith("_us"):
        return f"{name.removesuffix('_us')} {time_text(value / 1e6)}"
    return f"{name} {value:g}"


LEGAL = Verdict(Kind.LEGAL, "every dependence is respected")


def illegal(hazard: Hazard, sentence: str, witness: Witness | None = None, rule: str = "") -> Verdict:
    return Verdict(Kind.ILLEGAL, sentence, hazard, witness, rule=rule)


def unprofitable(sentence: str, **numbers: float) -> Verdict:
    return Verdict(Kind.UNPROFITABLE, sentence, numbers=numbers)


def unknown(sentence: str, rule: str = "") -> Verdict:
    return Verdict(Kind.UNKNOWN, sentence, rule=rule)
