"""What memory and the first-level cache of a GPU move at a time: sectors, lines of four of them, and lines at once."""

from __future__ import annotations

LINE, SECTOR = 128, 32  # bytes: of the cache, and those that the memory system moves at least
TAGS = 4  # lines that an access finds in one cycle
