"""Numbers with units, short and of fixed form: ``1.5 MB``, ``12.3 us``."""

from __future__ import annotations


def bytes_text(count: float) -> str:
    """Decimal units, as memory bandwidth is quoted."""
    for limit, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(count) >= limit:
            return f"{count / limit:.3g} {unit}" if abs(count) < 1000 * limit else f"{count / limit:.0f} {unit}"
    return f"{count:.0f} B"


def time_text(seconds: float) -> str:
    for limit, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= limit:
            return f"{seconds / limit:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
