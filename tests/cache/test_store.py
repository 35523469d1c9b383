"""The disk cache under faults: always a right answer, never a foreign byte."""

from __future__ import annotations

import functools
import logging
import os
import random
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyfuse.cache import directory as directory_module
from polyfuse.cache.directory import SafeDirectory, UnsafeDirectoryError
from polyfuse.cache.store import DiskStore, digest_of
from polyfuse.face.joined import backend, target_of
from polyfuse.face.numpy_like import NumPyFrontend
from polyfuse.options import Options
from polyfuse.plan import Plan
from polyfuse.planning.planner import plan_program
from polyfuse.run.dispatch import CacheInfo, Jitted
from polyfuse.run.services import PlanKey, Services

ROOT = Path(__file__).parents[2]
X = np.random.default_rng(1).standard_normal((9, 50)).astype(np.float32)


def program(x):
    return np.exp(x) * 2 - x.max(axis=1, keepdims=True)


def call(path: Path, **options: object) -> CacheInfo:
    """What a fresh process would do: run the program with an empty memory and the store at `path`."""
    services = Services(NumPyFrontend(), plan_program, backend, target_of, DiskStore(path))
    f = Jitted(program, Options().updated(options), services)
    np.testing.assert_allclose(f(X), program(X), rtol=1e-5, atol=1e-6)
    return f.cache_info()


@functools.cache
def saved() -> tuple[PlanKey, Plan, list[bytes]]:
    """What `DiskStore.save` takes."""
    services = Services(NumPyFrontend(), plan_program, backend, target_of)
    plan = Jitted(program, Options(), services).plan(X)
    return PlanKey(plan.program, plan.options, plan.layouts, plan.target, "numba_cpu", ()), plan, [b"code" * 1000]


def entries(path: Path) -> list[Path]:
    return sorted(p for p in (path / "plans").iterdir() if p.name != "key")


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    assert call(tmp_path).plans == 1
    return tmp_path


# ---------------------------------------------------------------------------------------------- hits and misses


def test_a_warm_process_neither_plans_nor_compiles(filled: Path) -> None:
    info = call(filled)
    assert (info.traces, info.plans, info.compilations, info.loads) == (1, 0, 0, 1)


def test_other_options_are_other_entries(filled: Path) -> None:
    assert call(filled, fuse=False).plans == 1
    assert call(filled, fuse=False).loads == 1
    assert call(filled).loads == 1
    assert call(filled, backend="interpreter").plans == 1


def test_only_the_owner_can_read_the_files(filled: Path) -> None:
    assert stat.S_IMODE((filled / "plans").stat().st_mode) == 0o700
    assert all(stat.S_IMODE(p.stat().st_mode) == 0o600 for p in (filled / "plans").iterdir())


# ---------------------------------------------------------------------------------------------- files that are not ours


def damaged(contents: bytes) -> list[bytes]:
    chooser = random.Random(0)
    found = [b"", contents[:-1], contents[: len(contents) // 2], contents + b"\0", b"x" * 100]
    for _ in range(20):
        position = chooser.randrange(len(contents))
        flipped = contents[position] ^ (1 << chooser.randrange(8))
        found.append(contents[:position] + bytes([flipped]) + contents[position + 1 :])
    return found


def test_torn_and_altered_files_are_ignored_and_replaced(filled: Path) -> None:
    (entry,) = entries(filled)
    contents = entry.read_bytes()
    directory = SafeDirectory.open(filled / "plans")
    for damage in damaged(contents):
        entry.write_bytes(damage)
        assert directory.read(entry.name) is None
    assert call(filled).plans == 1
    assert call(filled).loads == 1


def test_a_file_under_another_name_is_no_file(filled: Path) -> None:
    (entry,) = entries(filled)
    assert call(filled, fuse=False).plans == 1
    other = next(p for p in entries(filled) if p != entry)
    other.write_bytes(entry.read_bytes())
    assert call(filled, fuse=False).plans == 1


def test_files_of_another_cache_are_ignored(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    assert call(other).plans == 1
    (mine,), (theirs,) = entries(filled), entries(other)
    mine.write_bytes(theirs.read_bytes())
    assert call(filled).plans == 1


def test_files_that_others_may_write_and_links_are_ignored(filled: Path) -> None:
    (entry,) = entries(filled)
    entry.chmod(0o622)
    assert call(filled).plans == 1
    (entry,) = entries(filled)
    contents = entry.read_bytes()
    target = filled / "elsewhere"
    target.write_bytes(contents)
    entry.unlink()
    entry.symlink_to(target)
    assert call(filled).plans == 1
    assert not entry.is_symlink()
    entry.unlink()
    os.mkfifo(entry)
    assert call(filled).plans == 1


def test_a_torn_key_is_replaced_and_what_it_signed_forgotten(filled: Path) -> None:
    (filled / "plans" / "key").write_bytes(b"short")
    assert call(filled).plans == 1
    assert call(filled).loads == 1


# ---------------------------------------------------------------------------------------------- directories


def test_a_directory_that_others_may_enter_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "plans").mkdir(mode=0o755)
    assert call(tmp_path).plans == 1
    assert not list((tmp_path / "plans").iterdir())
    assert "not owned by this user alone" in caplog.text


def test_a_directory_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plans").mkdir(mode=0o700)
    monkeypatch.setattr(directory_module.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(UnsafeDirectoryError):
        SafeDirectory.open(tmp_path / "plans")


def test_a_linked_directory_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "plans").symlink_to(tmp_path / "real")
    assert call(tmp_path).plans == 1
    assert not list((tmp_path / "real").iterdir())


def test_a_path_that_is_a_file_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "file"
    path.write_text("")
    caplog.set_level(logging.WARNING)
    assert call(path).plans == 1
    assert len([r for r in caplog.records if r.name == "polyfuse.cache"]) == 1


@pytest.mark.parametrize("function", ["write", "rename", "open", "unlink"])
def test_failing_system_calls(
    filled: Path, function: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A full, read-only or vanished disk: the answer is right, one line is logged."""

    def fail(*args: object, **settings: object) -> None:
        raise OSError(28, "No space left on device")

    real = getattr(os, function)
    store = DiskStore(filled)
    monkeypatch.setattr(directory_module.os, function, fail)
    services = Services(NumPyFrontend(), plan_program, backend, target_of, store)
    f = Jitted(program, Options().updated({"contract": False}), services)
    np.testing.assert_allclose(f(X), program(X), rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(directory_module.os, function, real)
    assert "no disk cache" in caplog.text
    assert call(filled).loads == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("function", ["open", "write", "rename", "link", "unlink", "close"])
@pytest.mark.parametrize("when", [0, 1, 2, 3])
def test_a_process_killed_at_any_point_leaves_nothing_wrong(tmp_path: Path, function: str, when: int) -> None:
    path, real, _ = tmp_path / "cache", getattr(os, function), saved()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of the back end's idle threads
        child = os.fork()
    if child == 0:
        calls = iter(range(1000))

        def dying(*arguments: Any, **settings: Any) -> Any:
            if next(calls) == when:
                if function == "write":
                    real(arguments[0], bytes(arguments[1])[:100])
                os._exit(9)
            return real(*arguments, **settings)

        setattr(directory_module.os, function, dying)
        store = DiskStore(path)
        store.save(*saved())
        os._exit(0)
    os.waitpid(child, 0)
    store = DiskStore(path)
    found = store.load(saved()[0], saved()[1].program.hints)
    assert found is None or found[1] == tuple(saved()[2])
    store.save(*saved())
    assert DiskStore(path).load(saved()[0], saved()[1].program.hints) == (saved()[1], tuple(saved()[2]))


def test_half_written_files_of_killed_processes_are_swept(filled: Path) -> None:
    old, new = filled / "plans" / "a.part", filled / "plans" / "b.part"
    for part in (old, new):
        part.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    call(filled, fuse=False)
    assert not old.exists()
    assert new.exists()


def test_the_oldest_entries_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_module, "_MOST_FILES", 3)
    directory = SafeDirectory.open(tmp_path / "plans")
    for k in range(5):
        directory.write(f"entry{k}", b"data")
        os.utime(tmp_path / "plans" / f"entry{k}", (k, k))
    directory.sweep()
    assert [p.name for p in entries(tmp_path)] == ["entry2", "entry3", "entry4"]


# ---------------------------------------------------------------------------------------------- processes

SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
import test_store
for _ in range(3):
    test_store.call(Path({path!r}))
print(test_store.call(Path({path!r})).loads)
"""


@pytest.mark.slow
def test_processes_that_compile_the_same_program_at_once(tmp_path: Path) -> None:
    code = SCRIPT.format(tests=str(Path(__file__).parent), path=str(tmp_path))
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [process.communicate(timeout=120)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert [output.strip() for output in outputs] == ["1", "1", "1"]
    assert not [p for p in entries(tmp_path) if p.suffix == ".part"]


# ---------------------------------------------------------------------------------------------- what cannot be read


def written(path: Path, slot: int, *parts: bytes) -> None:
    """An entry that this cache wrote, of parts that are no plan."""
    contents = b"".join(len(part).to_bytes(4, "little") + part for part in parts)
    SafeDirectory.open(path / "plans").write(f"{digest_of(saved()[0])}-{slot:x}", contents)


@pytest.mark.parametrize("text", [b"{}", b"no json", b"[]", b'{"kind": "Unheard"}', b""])
def test_an_entry_that_is_no_plan_is_passed_over(text: bytes, tmp_path: Path) -> None:
    """The next slot may hold the plan."""
    key, plan, objects = saved()
    store = DiskStore(tmp_path)
    written(tmp_path, 0, text)
    assert store.load(key, plan.program.hints) is None
    store.save(key, plan, objects)
    assert store.load(key, plan.program.hints) == (plan, tuple(objects))


def test_a_torn_entry_does_not_hide_the_next_one(tmp_path: Path) -> None:
    key, plan, objects = saved()
    written(tmp_path, 0, b"{}")
    store = DiskStore(tmp_path)
    store.save(key, plan, objects)
    first, second = entries(tmp_path)
    first.write_bytes(b"torn")
    assert second.name.endswith("-1")
    assert store.load(key, plan.program.hints) == (plan, tuple(objects))


@pytest.mark.parametrize("doing", ["reading", "writing"])
def test_a_folder_that_fails_is_not_asked_again(
    doing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    key, plan, objects = saved()
    store = DiskStore(tmp_path)
    store.save(key, plan, objects)

    def fail(*arguments: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(SafeDirectory, {"reading": "read", "writing": "write"}[doing], fail)
    for _ in range(2):
        if doing == "reading":
            assert store.load(key, plan.program.hints) is None
        else:
            store.save(key, plan, objects)
    assert [r.message for r in caplog.records] == [f"no disk cache, {doing} {tmp_path} failed: the disk is gone"]
    monkeypatch.undo()
    assert store.load(key, plan.program.hints) is None
    assert DiskStore(tmp_path).load(key, plan.program.hints) == (plan, tuple(objects))


def test_a_folder_that_cannot_be_listed_has_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, plan, _ = saved()

    def fail(*arguments: object) -> None:
        raise OSError("no permission")

    monkeypatch.setattr(SafeDirectory, "exists", fail)
    assert DiskStore(tmp_path).load(key, plan.program.hints) is None
