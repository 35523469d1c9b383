"""Runs kernels on NumPy, in lock step and with checks: how kernels are tested without a GPU."""

from polyfuse.backends.interpreter.faults import KernelFault
from polyfuse.backends.interpreter.fragments import run_source
from polyfuse.backends.interpreter.machine import run_kernel

__all__ = ["KernelFault", "run_kernel", "run_source"]
