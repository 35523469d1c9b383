"""Kernels as Numba CUDA: `compile.compile_kernel`, `launch.Launcher`, and the fragment runtime.

Importing this package does not import numba.cuda; the modules that need it are imported on first use.
"""
