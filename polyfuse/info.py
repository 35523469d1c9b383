"""What `python -m polyfuse info` prints: versions, devices and the cache, read without importing anything heavy."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from polyfuse.cache.location import cache_directory
from polyfuse.errors import OptionError
from polyfuse.options import read_environment
from polyfuse.version import __version__

PACKAGES = ("islpy", "numba", "numpy", "sympy", "ml_dtypes")
OPTIONAL = ("numba-cuda", "cuda-bindings", "torch", "cupy")


@dataclass(frozen=True, slots=True)
class Info:
    """One machine as polyfuse sees it.

    `packages`: name -> version, or None where it is not installed.  `devices`: one line per GPU.  `no_device`: why
    there is none.  `cache`: None where the cache is off.  `environment`: the POLYFUSE_ variables that are set.
    `complaint`: what is wrong with them, if anything.
    """

    packages: Mapping[str, str | None]
    cores: int
    devices: tuple[str, ...]
    no_device: str
    cache: Path | None
    cache_files: int
    cache_bytes: int
    environment: Mapping[str, str]
    complaint: str

    def __str__(self) -> str:
        system = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {self.cores} cores"
        rows = [("polyfuse", __version__), ("python", system)]
        rows += [(name, number or "not installed") for name, number in self.packages.items()]
        rows += [("gpu", device) for device in self.devices] or [("gpu", f"none: {self.no_device}")]
        held = f"{self.cache} ({self.cache_files} files, {self.cache_bytes / 1e6:.1f} MB)" if self.cache else "off"
        rows += [("cache", held), *self.environment.items()]
        rows += [("error", self.complaint)] if self.complaint else []
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def gather(variables: Mapping[str, str] = os.environ) -> Info:
    """Look at this machine.  Raises nothing for a missing GPU, driver, package, cache or a bad variable."""
    complaint, setting = "", variables.get("POLYFUSE_CACHE", "")
    try:
        read_environment(variables)
    except OptionError as error:
        complaint = str(error)
    cache = cache_directory(setting, variables)
    sizes = [path.stat().st_size for path in cache.rglob("*") if path.is_file()] if cache and cache.is_dir() else []
    devices, no_device = gpus()
    return Info(
        packages={name: installed(name) for name in PACKAGES + OPTIONAL},
        cores=len(os.sched_getaffinity(0)),
        devices=devices,
        no_device=no_device,
        cache=cache,
        cache_files=len(sizes),
        cache_bytes=sum(sizes),
        environment={name: text for name, text in sorted(variables.items()) if name.startswith("POLYFUSE_")},
        complaint=complaint,
    )


def installed(package: str) -> str | None:
    """The version of an installed distribution; importing it would take up to a second."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def gpus() -> tuple[tuple[str, ...], str]:
    """One line per NVIDIA GPU from the driver's own tool, or no lines and the reason."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return (), "no NVIDIA driver (nvidia-smi not found)"
    query = [tool, "--query-gpu=name,compute_cap,memory.total,driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return (), f"nvidia-smi: {error}"
    if answer.returncode != 0:
        return (), f"nvidia-smi: {(answer.stdout + answer.stderr).strip()}"
    return tuple(_described(line) for line in answer.stdout.splitlines() if line.strip()), "nvidia-smi lists no GPU"


def _described(line: str) -> str:
    """``NVIDIA H200, sm_90, 143771 MiB, driver 580.65`` from a line of the tool's table."""
    name, *rest = (cell.strip() for cell in line.split(","))
    if len(rest) != 3:
        return line.strip()
    capability, memory, driver = rest
    return f"{name}, sm_{capability.replace('.', '')}, {memory}, driver {driver}"
