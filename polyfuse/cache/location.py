"""Where the disk cache lies."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

_log = logging.getLogger("polyfuse.cache")


def cache_directory(setting: str, variables: Mapping[str, str] = os.environ) -> Path | None:
    """Where compiled kernels are kept: POLYFUSE_CACHE, else ``polyfuse`` in the user's cache folder; None where it is
    off, or where the user has no home."""
    if setting.strip().lower() == "off":
        return None
    shared = Path(variables.get("XDG_CACHE_HOME", ""))
    if not setting and shared.is_absolute():  # others the XDG Base Directory Specification has ignored
        return shared / "polyfuse"
    try:
        return Path(setting or "~/.cache/polyfuse").expanduser()
    except RuntimeError as error:  # a container's user without a name
        _log.warning("no disk cache: %s", error)
        return None
