"""polyfuse: proved loop fusion for NumPy programs."""

from polyfuse.version import __version__

__all__ = ["__version__"]
