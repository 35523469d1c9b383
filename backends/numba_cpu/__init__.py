"""Kernel text to multithreaded CPU code, through Numba: a block is a cache tile, slots are vector lanes."""
