"""More of what can happen to the disk cache: disks that fill up, users without a home, forks and threads in between."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from polyfuse.cache import directory as directory_module
from polyfuse.cache.directory import SafeDirectory
from polyfuse.cache.location import cache_directory
from polyfuse.cache.store import DiskStore
from tests.cache.test_store import call, entries, saved


@pytest.mark.parametrize("number", [28, 30, 5], ids=["full", "read-only", "broken"])
@pytest.mark.parametrize("when", [0, 1, 2])
def test_a_disk_that_fails_in_the_middle(
    tmp_path: Path, number: int, when: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Half a write, then the error: no file under a final name, a right answer, a cache that works once it can."""
    real, calls = os.write, iter(range(1000))

    def write(handle: int, data: Any) -> int:
        if next(calls) >= when:
            real(handle, bytes(data)[: len(data) // 2])
            raise OSError(number, os.strerror(number))
        return real(handle, data)

    monkeypatch.setattr(directory_module.os, "write", write)
    store = DiskStore(tmp_path)
    store.save(*saved())
    kept = DiskStore(tmp_path).load(saved()[0], saved()[1].program.hints)
    assert kept is None or when == 2  # two writes make a key and a plan
    assert ("no disk cache" in caplog.text) == (kept is None)
    monkeypatch.setattr(directory_module.os, "write", real)
    assert not [p for p in (tmp_path / "plans").iterdir() if p.suffix == ".part"]
    DiskStore(tmp_path).save(*saved())
    assert DiskStore(tmp_path).load(saved()[0], saved()[1].program.hints) == (saved()[1], tuple(saved()[2]))


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    directory = SafeDirectory.open(tmp_path / "plans")
    directory.write("entry", b"twelve bytes")
    file = tmp_path / "plans" / "entry"
    contents = file.read_bytes()
    for bit in range(8 * len(contents)):
        flipped = bytearray(contents)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(flipped)
        assert directory.read("entry") is None, bit
    file.write_bytes(contents)
    assert directory.read("entry") == b"twelve bytes"


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def nobody(number: int) -> Any:
        raise KeyError(number)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert cache_directory("", {}) is None
    assert "no disk cache" in caplog.text
    assert cache_directory("/somewhere", {}) == Path("/somewhere")
    assert cache_directory("", {"XDG_CACHE_HOME": "/var/cache"}) == Path("/var/cache/polyfuse")
    assert cache_directory("", {"XDG_CACHE_HOME": "cache"}) is None
    assert cache_directory("off", {}) is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_shares_the_directory_and_both_write(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    assert store.load(saved()[0], saved()[1].program.hints) is None  # opens it before the fork
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of the back end's idle threads
        child = os.fork()
    if child == 0:
        for _ in range(20):
            store.save(*saved())
        os._exit(0)
    for _ in range(20):
        store.save(*saved())
        found = store.load(saved()[0], saved()[1].program.hints)
        assert found == (saved()[1], tuple(saved()[2]))
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert not [p for p in (tmp_path / "plans").iterdir() if p.suffix == ".part"]


def test_threads_that_start_cold_are_all_right(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            call(tmp_path)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(entries(tmp_path)) >= 1
    assert call(tmp_path).loads == 1


def test_files_that_vanish_while_the_folder_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another process renames its half-written file, or sweeps an old one."""
    real = os.scandir

    @contextlib.contextmanager
    def scandir(descriptor: int) -> Iterator[Any]:
        (tmp_path / "plans" / "other.part").write_bytes(b"half")
        with real(descriptor) as entries:
            found = list(entries)
        (tmp_path / "plans" / "other.part").unlink()
        yield found

    monkeypatch.setattr(directory_module.os, "scandir", scandir)
    store = DiskStore(tmp_path)
    for _ in range(2):
        store.save(*saved())
    assert not caplog.records
    assert len(entries(tmp_path)) == 2


def test_a_folder_that_was_removed_is_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store, key, sizes = DiskStore(tmp_path), saved()[0], saved()[1].program.hints
    store.save(*saved())
    for _ in range(2):
        shutil.rmtree(tmp_path / "plans")
        assert store.load(key, sizes) is None
        store.save(*saved())
        assert store.load(key, sizes) == (saved()[1], tuple(saved()[2]))
    assert not caplog.records
