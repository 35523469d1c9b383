"""Kernel IR to the text of generated kernels."""
