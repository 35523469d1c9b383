"""polyfuse: proved loop fusion for NumPy programs."""
