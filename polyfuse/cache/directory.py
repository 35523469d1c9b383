"""A directory that only its owner reads and writes, and files in it that are whole or absent.

Everything goes through a descriptor of the directory, checked once, so that replacing a folder on the way to it by a
link changes nothing.  Every file carries a message authentication code under a key that lies in the directory, readable
by the owner only: a torn, altered or foreign file is like no file.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"polyfuse cache 1\n"
_KEY = "key"
_KEY_BYTES = 32
_STALE = 3600.0  # seconds after which a file that a killed process left half-written is removed
_MOST_FILES = 8192  # of about 50 KB each


class UnsafeDirectoryError(OSError):
    """The directory belongs to someone else, or others may write to it."""


@dataclass(frozen=True, slots=True)
class SafeDirectory:
    """An open directory.  Methods raise OSError; `read` returns None for a file that is absent or not ours."""

    descriptor: int
    key: bytes
    path: Path

    @staticmethod
    def open(path: Path) -> SafeDirectory:
        """Open or make the directory.  Raises OSError, UnsafeDirectoryError among them."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # the user's own, where it is made here
        path.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            facts = os.fstat(descriptor)
            if facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
                raise UnsafeDirectoryError(f"{path} is not owned by this user alone (it needs mode 700)")
            return SafeDirectory(descriptor, _key(descriptor), path)
        except BaseException:
            os.close(descriptor)
            raise

    def read(self, name: str) -> bytes | None:
        """The contents of a file that `write` completed with this directory's key."""
        try:
            data = _read(self.descriptor, name)
        except FileNotFoundError:
            return None
        if data is None or not data.startswith(_MAGIC):
            return None
        start = len(_MAGIC) + hashlib.sha256().digest_size
        code, contents = data[len(_MAGIC) : start], data[start:]
        return contents if hmac.compare_digest(code, self._code(name, contents)) else None

    def write(self, name: str, contents: bytes) -> None:
        """Make or replace a file in one step."""
        _write(self.descriptor, name, _MAGIC + self._code(name, contents) + contents)

    def close(self) -> None:
        os.close(self.descriptor)

    def exists(self, name: str) -> bool:
        try:
            os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def sweep(self) -> None:
        """Remove what killed processes left, and the oldest files beyond the limit."""
        found = []
        with os.scandir(self.descriptor) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # another process has renamed or removed it meanwhile
                    found.append((entry.name, entry.stat(follow_symlinks=False).st_mtime))
        now = time.time()
        stale = [name for name, changed in found if name.endswith(".part") and now - changed > _STALE]
        whole = sorted((changed, name) for name, changed in found if name != _KEY and not name.endswith(".part"))
        for name in [*stale, *(name for _, name in whole[: max(0, len(whole) - _MOST_FILES)])]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self.descriptor)

    def _code(self, name: str, contents: bytes) -> bytes:
        """The name is part of it: a file renamed to another's name is not that file."""
        return hmac.digest(self.key, name.encode() + b"\0" + contents, "sha256")


def _key(descriptor: int) -> bytes:
    """The directory's secret, made by whoever comes first."""
    for _ in range(2):
        with contextlib.suppress(FileNotFoundError):
            found = _read(descriptor, _KEY)
            if found is not None and len(found) == _KEY_BYTES:
                return found
            with contextlib.suppress(FileNotFoundError):  # torn: nothing signed with it can be trusted
                os.unlink(_KEY, dir_fd=descriptor)
        with contextlib.suppress(FileExistsError):
            _write(descriptor, _KEY, secrets.token_bytes(_KEY_BYTES), replace=False)
    found = _read(descriptor, _KEY)
    if found is None or len(found) != _KEY_BYTES:
        raise UnsafeDirectoryError("the cache directory has no key of its own")
    return found


def _read(descriptor: int, name: str) -> bytes | None:
    """A regular file of this user that nobody else may write; None for any other."""
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor)
    except FileNotFoundError:
        raise
    except OSError:  # a link, or not readable
        return None
    with open(handle, "rb") as file:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
            return None
        return file.read()


@contextlib.contextmanager
def _partial(descriptor: int) -> Iterator[tuple[str, int]]:
    """A new file under a temporary name, gone afterwards unless it was renamed."""
    name = f"{secrets.token_hex(8)}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(name, flags, 0o600, dir_fd=descriptor)
    try:
        yield name, handle
    finally:
        os.close(handle)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=descriptor)


def _write(descriptor: int, name: str, data: bytes, *, replace: bool = True) -> None:
    """Write a file that appears whole under its name.  Raises FileExistsError where it may not be replaced."""
    with _partial(descriptor) as (part, handle):
        left = memoryview(data)
        while left:
            left = left[os.write(handle, left) :]
        if replace:
            os.rename(part, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        else:
            os.link(part, name, src_dir_fd=descriptor, dst_dir_fd=descriptor, follow_symlinks=False)
