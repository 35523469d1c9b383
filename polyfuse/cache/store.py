"""The store of plans on disk: one file per plan and class of sizes, found by a digest of all that it depends on."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from polyfuse.cache.directory import SafeDirectory
from polyfuse.cache.encoding import UnstorableError, decode, encode
from polyfuse.plan import Plan
from polyfuse.run.services import PlanKey
from polyfuse.run.sizes import hold
from polyfuse.version import __version__

_SLOTS = 16  # plans per key, one per class of sizes
_LENGTH = struct.Struct("<I")

_log = logging.getLogger("polyfuse.cache")


@dataclass(slots=True)
class DiskStore:
    """Plans under `path`.  Nothing here raises: a cache that cannot be used is logged once and then ignored."""

    path: Path
    _directory: SafeDirectory | None = None
    _broken: bool = False

    def load(self, key: PlanKey, sizes: Mapping[str, int]) -> tuple[Plan, tuple[bytes, ...]] | None:
        directory = self._open()
        if directory is None:
            return None
        digest = digest_of(key)
        for slot in range(_SLOTS):
            try:
                contents = directory.read(_name(digest, slot))
            except OSError as error:
                self._give_up("reading", error)
                return None
            if contents is None:
                if not _exists(directory, digest, slot):
                    return None
                continue  # torn or foreign: another slot may hold the plan
            found = _parse(contents, key, sizes)
            if found is not None:
                return found
        return None

    def save(self, key: PlanKey, plan: Plan, objects: Sequence[bytes]) -> None:
        if self._open() is None:
            return
        try:
            text = json.dumps(encode(plan, key.program), separators=(",", ":")).encode()
        except (UnstorableError, RecursionError) as reason:
            _log.info("%s is not kept on disk: %s", key.program.name, reason)
            return
        contents = b"".join(_LENGTH.pack(len(part)) + part for part in (text, *objects))
        try:
            try:
                self._write(digest_of(key), contents)
            except FileNotFoundError:  # somebody has removed the folder
                self._close()
                self._write(digest_of(key), contents)
        except OSError as error:
            self._give_up("writing", error)

    def _write(self, digest: str, contents: bytes) -> None:
        directory = self._open()
        if directory is None:
            return
        slot = next((s for s in range(_SLOTS) if directory.read(_name(digest, s)) is None), _SLOTS - 1)
        directory.write(_name(digest, slot), contents)
        directory.sweep()

    def _open(self) -> SafeDirectory | None:
        if self._directory is None and not self._broken:
            try:
                self._directory = SafeDirectory.open(self.path / "plans")
            except OSError as error:
                self._give_up("opening", error)
        return None if self._broken else self._directory

    def _close(self) -> None:
        """Nobody uses the descriptor: plans are found and made under one lock."""
        if self._directory is not None:
            self._directory.close()
        self._directory = None

    def _give_up(self, doing: str, error: OSError) -> None:
        """A cache that fails once (full, read-only, gone) is not tried again in this process."""
        self._broken = True
        _log.warning("no disk cache, %s %s failed: %s", doing, self.path, error)


def _name(digest: str, slot: int) -> str:
    return f"{digest}-{slot:x}"


def _exists(directory: SafeDirectory, digest: str, slot: int) -> bool:
    try:
        return directory.exists(_name(digest, slot))
    except OSError:
        return False


def _parse(contents: bytes, key: PlanKey, sizes: Mapping[str, int]) -> tuple[Plan, tuple[bytes, ...]] | None:
    """The plan and object code of a file, where its guards hold."""
    parts, at = [], 0
    while at < len(contents):
        (length,) = _LENGTH.unpack_from(contents, at)
        parts.append(contents[at + 4 : at + 4 + length])
        at += 4 + length
    try:
        plan = decode(json.loads(parts[0]), key.program)
    except (ValueError, KeyError, IndexError, TypeError) as error:  # written by an edited polyfuse of this version
        _log.warning("a cache entry of %s cannot be read: %r", key.program.name, error)
        return None
    if not isinstance(plan, Plan) or not hold(plan.guards, sizes):
        return None
    return plan, tuple(parts[1:])


# ---------------------------------------------------------------------------------------------- keys


def digest_of(key: PlanKey) -> str:
    """A digest of everything that the plan and its object code depend on.  Names are part of it, because plans print
    them; typical sizes are not: the guards of an entry say for which sizes it holds."""
    program = key.program
    names = (program.name, program.output_names, tuple(a.path for a in program.arguments))
    values = sorted((digest.hex(), name) for digest, name in program.names.items())
    inner = sorted(digest.hex() for digest in program.inner)
    settings = (key.options, key.layouts, key.target, key.backend, key.versions, key.pairs, _environment())
    text = repr((program.digest.hex(), names, values, inner, settings))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@cache
def _environment() -> tuple[str, ...]:
    """Versions of what makes plans, and the state of our own source files: their sizes and times, since reading all of
    them would take longer than the cache may."""
    root = Path(__file__).parents[1]
    state = hashlib.blake2b(digest_size=16)
    for folder, _, files in sorted(os.walk(root, followlinks=True)):
        for name in sorted(files):
            if name.endswith(".py"):
                facts = os.stat(os.path.join(folder, name))
                state.update(f"{folder[len(str(root)) :]}/{name} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    versions = (__version__, np.__version__, platform.python_implementation(), platform.python_version())
    return (*versions, platform.machine(), state.hexdigest())
