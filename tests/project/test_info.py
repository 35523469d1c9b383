"""`python -m polyfuse info` answers on every machine."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from polyfuse.__main__ import main
from polyfuse.info import cache_directory, gather, gpus, installed
from polyfuse.version import __version__


def fake_tool(folder: Path, script: str) -> None:
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)


def test_info_names_versions_devices_and_cache(capsys: pytest.CaptureFixture[str]) -> None:
    main(["info"])
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["polyfuse"] == __version__
    assert lines["islpy"][0].isdigit() and {"gpu", "cache", "torch"} <= lines.keys()


def test_a_machine_without_a_driver_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus() == ((), "no NVIDIA driver (nvidia-smi not found)")


def test_gpus_are_listed_one_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_tool(tmp_path, "echo 'NVIDIA H200, 9.0, 143771 MiB, 580.65.06'; echo 'something else'")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    devices, _ = gpus()
    assert devices == ("NVIDIA H200, sm_90, 143771 MiB, driver 580.65.06", "something else")


def test_a_driver_that_fails_is_reported_not_raised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_tool(tmp_path, "echo 'driver/library version mismatch'; exit 18")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert gpus() == ((), "nvidia-smi: driver/library version mismatch")


def test_the_cache_is_counted(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "kernel.o").write_bytes(bytes(2_500_000))
    info = gather({"POLYFUSE_CACHE": str(tmp_path)})
    assert (info.cache, info.cache_files, info.cache_bytes) == (tmp_path, 1, 2_500_000)
    assert f"{tmp_path} (1 files, 2.5 MB)" in str(info)


def test_where_the_cache_lies() -> None:
    assert cache_directory("off") is None
    assert cache_directory("", {"XDG_CACHE_HOME": "/c"}) == Path("/c/polyfuse")
    for others in ({}, {"XDG_CACHE_HOME": ""}, {"XDG_CACHE_HOME": "relative/cache"}):
        assert cache_directory("", others) == Path("~/.cache/polyfuse").expanduser()


def test_a_bad_variable_is_reported_not_raised() -> None:
    info = gather({"POLYFUSE_LOG": "everything"})
    assert "POLYFUSE_LOG='everything'" in info.complaint
    assert info.complaint in str(info)


def test_a_missing_package_has_no_version() -> None:
    assert installed("no-such-distribution-anywhere") is None
    assert gather({}).packages["numpy"] is not None
