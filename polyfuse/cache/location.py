"""Where the disk cache lies."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def cache_directory(setting: str, variables: Mapping[str, str] = os.environ) -> Path | None:
    """Where compiled kernels are kept: POLYFUSE_CACHE, else ``polyfuse`` in the user's cache folder; None where off."""
    if setting == "off":
        return None
    home = Path(variables.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return Path(setting).expanduser() if setting else home / "polyfuse"
